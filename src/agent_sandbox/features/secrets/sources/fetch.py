"""Fetch the value of a secret from its source: a command, a variable, a file, the keyring or an app."""

import os
import shlex
import shutil
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from agent_sandbox.features.secrets.sources.aws_keys import (
    NEVER_VALID,
    PROFILE,
    credentials_file,
    printed_keys,
    stored_keys,
)
from agent_sandbox.features.secrets.sources.ssh_key import NotAKeyError, key_on_one_line
from agent_sandbox.features.secrets.sources.value import MOST, Fetched, faults, without_line_end
from agent_sandbox.host.git.ask import ask_git
from agent_sandbox.host.process import TIMED_OUT, TOO_MUCH, capture
from agent_sandbox.host.program_path import in_project, program_path
from agent_sandbox.host.user_dirs import config_directory, home_directory
from agent_sandbox.printable import printable_lines
from agent_sandbox.problems import Problem, UserError

SECONDS = 30.0
FOREIGN = stat.S_IRWXG | stat.S_IRWXO
# Bytes that a command may print; its value is shorter, but it may also explain itself.
MOST_PRINTED = 1 << 20
# Characters of a failing command's last line that are shown.
SHOWN = 200
EXPORT = ("configure", "export-credentials", "--profile")
REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Host(Struct, frozen=True, kw_only=True):
    """The environment in which sources are fetched. The sandbox sees `root`, so nothing there can be a source."""

    root: Path
    environ: Mapping[str, str]
    seconds: float = SECONDS

    def sees(self, path: Path) -> bool:
        """Return whether this sandbox or another one can see, and maybe write, this path."""
        shared = (self.root, config_directory(self.environ))
        ways = (path.absolute(), path.resolve())
        return in_project(path) or any(way.is_relative_to(one.resolve()) for one in shared if one for way in ways)


class NoValueError(Exception):
    """Why a source gives no value; `hint` says how to fix it."""

    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.hint = hint


def fetch(name: str, source: str, host: Host) -> Fetched:
    """Return the value of the secret `name`, or raise UserError with all problems. They never show the value."""
    kind, rest = split_source(source)
    try:
        found = SOURCES[kind](rest, host)
        found = found if isinstance(found, Fetched) else as_printed(found)
    except NoValueError as error:
        what = f"the source of {name} gives no value: {error}"
        raise UserError([Problem(where=source, what=what, hint=error.hint)]) from error
    value = without_line_end(found.value)
    wrong = faults(value) if value else [("it is empty", "the source has to give the secret on one line")]
    problems = [
        Problem(where=source, what=f"the source of {name} gives no secret: {what}", hint=hint) for what, hint in wrong
    ]
    if problems:
        raise UserError(problems)
    return replace(found, value=value)


def as_printed(output: bytes) -> Fetched:
    """Return what a source printed: AWS keys if it is their JSON, which may say when they expire, else the output."""
    keys, left = printed_keys(output)
    _require_current(left)
    return Fetched(value=os.fsencode(keys) or output, left=left)


def _require_current(left: float | None) -> None:
    """Raise NoValueError for a value that has ended; `left` is in seconds, None for one that does not end."""
    if left == NEVER_VALID:
        raise NoValueError("its `Expiration` is not a time in ISO 8601", "the program has to print one, or none")
    if left is not None and left <= 0:
        raise NoValueError("it has expired", "sign in again, as with aws sso login")


def split_source(source: str) -> tuple[str, str]:
    """Return the kind of a source and the rest of its text.

    >>> split_source("env:API_KEY"), split_source("op read op://vault/key")
    (('env', 'API_KEY'), ('command', 'op read op://vault/key'))
    """
    kind, _, rest = source.partition(":")
    return (kind, rest) if kind in SOURCES and kind != COMMAND else (COMMAND, source)


def _from_variable(name: str, host: Host) -> bytes:
    if name not in host.environ:
        raise NoValueError(f"the variable {name} is not set", f"export {name}, then agent-sandbox secret sync")
    return os.fsencode(host.environ[name])


def _from_command(text: str, host: Host) -> bytes:
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise NoValueError(f"not a command: {error}".lower(), "quote it as in a shell") from error
    program = find_program(argv[0], host) if argv else None
    if program is None:
        raise NoValueError("there is no such program", "for a pipe or a redirection, write: sh -c '...'")
    return run_source((program, *argv[1:]), host)


def find_program(name: str, host: Host) -> str | None:
    """Return the path of a program, None if there is none; raise NoValueError if the agent could replace it."""
    program = shutil.which(name, path=host.environ.get("PATH"))
    if program is not None and (host.sees(Path(program)) or not Path(program).is_absolute()):
        raise NoValueError(f"the agent could replace {program}", "use a program outside the project")
    return program


def _from_keyring(text: str, host: Host) -> bytes:
    service, _, username = text.partition("/")
    if not (service and username):
        raise NoValueError("it names no entry", "write keyring:SERVICE/USERNAME")
    if find_spec("keyring") is None:
        raise NoValueError("the Python package `keyring` is not installed", "install it beside agent-sandbox")
    return run_source((sys.executable, "-P", "-m", "keyring", "get", service, username), host)


def run_source(argv: tuple[str, ...], host: Host, *, stdin: bytes = b"") -> bytes:
    """Return the output of a program that runs as the user, without a terminal, or raise NoValueError."""
    # Not in the project: a command must not find the project's files in the current directory.
    home = home_directory(host.environ) or Path("/")
    # Nor its programs: `sh -c` and `#!/usr/bin/env` look on PATH, too.
    path = {"PATH": program_path(host.environ, project=host.root)}
    try:
        done = capture(
            argv,
            cwd=home,
            timeout=host.seconds,
            stdin=stdin,
            environment=path,
            errors="surrogateescape",
            own_session=True,
            most=MOST_PRINTED,
        )
    except OSError as error:
        raise NoValueError(f"it cannot be run: {error.strerror}") from error
    if done.code == TIMED_OUT:
        hint = "it gets no terminal to ask on: sign in or unlock it first, then agent-sandbox secret sync"
        raise NoValueError(f"no answer within {host.seconds:g} seconds", hint)
    if done.code == TOO_MUCH:
        raise NoValueError("it prints more than 1 MiB", "the source has to give the secret on one line")
    if done.code != 0:
        said = printable_lines((done.err.strip().splitlines() or [""])[-1])[:SHOWN]
        hint = "run it in a terminal; it gets none here, so it cannot ask for a password"
        raise NoValueError(f"it exited with {done.code}{': ' if said else ''}{said}", hint)
    return os.fsencode(done.out)


def _from_file(text: str, host: Host) -> bytes:
    return _private_file("file", text, host)


def _from_ssh_key(text: str, host: Host) -> bytes:
    """Return who may commit, by git's settings in the project, and the key for the signatures."""
    try:
        key = key_on_one_line(_private_file("ssh-key", text, host))
    except NotAKeyError as error:
        raise NoValueError(str(error), error.hint) from error
    try:
        email = ask_git("config", "--includes", "user.email", cwd=host.root).out.strip()
    except OSError as error:
        raise NoValueError("git cannot be run", "install git") from error
    if not email:
        raise NoValueError("git does not know your e-mail address", "git config --global user.email YOU@EXAMPLE.COM")
    return os.fsencode(f"{email} {key}")


def _from_aws(profile: str, host: Host) -> Fetched:
    """Return the keys of a profile: those in the file of credentials, else those that AWS's own program prints."""
    if not PROFILE.fullmatch(profile):
        raise NoValueError("the name of the profile is missing or invalid", "write aws:PROFILE, such as aws:default")
    file, keys, left = credentials_file(host.environ), "", None
    if file.is_file():
        keys = stored_keys(_private_file("file", str(file), host).decode("utf-8", "replace"), profile)
    if not keys and (program := find_program("aws", host)):
        try:
            keys, left = printed_keys(run_source((program, *EXPORT, profile), host))
        except NoValueError as error:
            why = f"{file} has no keys for {profile}, and `aws {' '.join(EXPORT)} {profile}` says: {error}"
            raise NoValueError(why, "sign in first; version 1 of aws does not have this command") from error
    if not keys:
        raise NoValueError(f"the profile {profile} has no keys", f"aws configure --profile {profile}")
    _require_current(left)
    return Fetched(value=os.fsencode(keys), left=left)


def _from_app(text: str, host: Host) -> Fetched:
    """Return a token of a GitHub App, which its private key asks for; the key is in a file on this machine."""
    # Few have an app, and the modules for requests take long to import.
    from agent_sandbox.features.secrets.sources.github_app import NoTokenError, parse_app, token_of  # noqa: PLC0415

    try:
        app = parse_app(text)
        _private_file("file", app.key, host)
        key = str(Path(app.key).expanduser())
        openssl = find_program("openssl", host)
        if openssl is None:
            raise NoValueError("openssl is not installed", "install it: it signs with the key of the app")
        return token_of(app, lambda said: run_source((openssl, "dgst", "-sha256", "-sign", key), host, stdin=said))
    except NoTokenError as error:
        raise NoValueError(str(error), error.hint) from error


def _private_file(kind: str, text: str, host: Host) -> bytes:
    path = Path(text).expanduser()
    if not path.is_absolute():
        raise NoValueError("not an absolute path", f"write {kind}:{Path.home()}/...")
    if host.sees(path):
        raise NoValueError("the sandbox can see this file", "move it out of the project")
    if path.resolve() != path:
        raise NoValueError("the path has a symbolic link", f"write {kind}:{path.resolve()}")
    return read_private(path, MOST + 3)


def read_private(path: Path, most: int) -> bytes:
    """Return at most so many bytes of a regular file that only this user can open, or raise NoValueError."""
    try:
        handle = os.open(path, REGULAR)
    except OSError as error:
        raise NoValueError(f"it cannot be read: {error.strerror}") from error
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise NoValueError("not a regular file")
        if found.st_uid != os.geteuid():
            raise NoValueError("the file belongs to another user", f"chown {os.geteuid()} FILE")
        if found.st_mode & FOREIGN:
            raise NoValueError("other users may open the file", "chmod 600 FILE")
        return os.read(handle, most)
    finally:
        os.close(handle)


COMMAND, APP = "command", "github-app"
SOURCES: Mapping[str, Callable[[str, Host], bytes | Fetched]] = {
    COMMAND: _from_command,
    "env": _from_variable,
    "file": _from_file,
    "keyring": _from_keyring,
    "ssh-key": _from_ssh_key,
    "aws": _from_aws,
    APP: _from_app,
}
# The sources whose values can be fetched again at any time without a question; others are when they said that one ends.
RENEWED = frozenset({"aws", APP})
