"""The login of an agent's client on the host machine: read it, and have the client refresh it.

Only the client writes its files: refresh tokens change with each use, so a second writer would log it out (ADR 42).
"""

import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from agent_sandbox.agents.login import Login
from agent_sandbox.features.secrets.sources.fetch import Host, NoValueError, find_program, read_private, run_source
from agent_sandbox.features.secrets.sources.login_document import HostLogin, UnknownShapeError, read_document
from agent_sandbox.host.files import problem_of
from agent_sandbox.host.user_dirs import home_directory, state_directory
from agent_sandbox.problems import Problem, UserError

# Clients refresh a token in its last five minutes; some do it only then.
RENEW_SECONDS = 240.0
LOCK_SECONDS = 90.0
POLL_SECONDS = 0.1
# A client that does not replace its file atomically needs this long to write it.
TRIES = 10
MOST_BYTES = 1 << 20
KEYCHAIN = ("/usr/bin/security", "find-generic-password", "-w", "-s")


class Clock(Struct, frozen=True, kw_only=True):
    """The time of day, and how to wait."""

    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


CLOCK = Clock()


class NoLoginError(Exception):
    """There is no login on the host machine."""


def login_file(login: Login, host: Host) -> Path:
    """Return where the client keeps its login."""
    folder = host.environ.get(login.folder, "") if login.folder else ""
    if folder:
        return Path(folder, *Path(login.file).parts[1:])
    return (home_directory(host.environ) or Path("/")) / login.file


def read_login(login: Login, host: Host, *, platform: str = sys.platform, clock: Clock = CLOCK) -> HostLogin:
    """Return the login on the host machine. Raises NoLoginError if there is none, UserError if it cannot be used."""
    path = login_file(login, host)
    problem = UnknownShapeError("it is empty")
    for _ in range(TRIES):
        try:
            return read_document(login, _read(login, path, host, platform))
        except UnknownShapeError as error:
            problem = error
        clock.sleep(POLL_SECONDS)
    hint = "nothing was passed on; sign in again, or report this with the version of the client"
    what = f"this credential file has an unknown shape: {problem}"
    raise UserError([Problem(where=str(path), what=what, hint=hint)])


def current_login(login: Login, host: Host, *, platform: str = sys.platform, clock: Clock = CLOCK) -> HostLogin:
    """Return the login on the host machine; if it is about to expire, first have the client refresh it.

    Of several sandboxes that need this at once, one asks the client; the others wait and read what it wrote.
    """
    found = read_login(login, host, platform=platform, clock=clock)
    if not _expires_soon(found, clock):
        return found
    with _locked(login, host, clock):
        found = read_login(login, host, platform=platform, clock=clock)
        if not _expires_soon(found, clock):
            return found
        problem, before = _renew(login, host), found
        found = read_login(login, host, platform=platform, clock=clock)
    if (found.left(clock.now()) or 0) > 0:
        return found
    hint = f"run `{' '.join(login.sign_in)}` on this machine, then agent-sandbox secret sync"
    what = f"this login has expired{problem}"
    if found.access != before.access:
        what = "by the clock of this machine, this login has expired, although the client has just refreshed it"
        hint = "set the clock, then agent-sandbox secret sync"
    raise UserError([Problem(where=str(login_file(login, host)), what=what, hint=hint)])


def _expires_soon(found: HostLogin, clock: Clock) -> bool:
    left = found.left(clock.now())
    return left is not None and left < RENEW_SECONDS


def _renew(login: Login, host: Host) -> str:
    """Have the client refresh its login; return why it could not, as the end of a sentence."""
    if not login.renew:
        return ""
    try:
        program = find_program(login.renew[0], host)
        if program is None:
            return f", and {login.renew[0]} is not installed on this machine"
        run_source((program, *login.renew[1:]), host)
    except NoValueError as error:
        return f": `{' '.join(login.renew)}` failed: {error}"
    return f", and `{' '.join(login.renew)}` did not refresh it"


def _read(login: Login, path: Path, host: Host, platform: str) -> bytes:
    if host.sees(path):
        what, hint = "the sandbox can see this credential file", "keep it in your home directory, outside all projects"
        raise UserError([Problem(where=str(path), what=what, hint=hint)])
    if not os.path.lexists(path):
        if platform == "darwin" and login.keychain:
            return _from_keychain(login, host)
        raise NoLoginError
    if path.is_symlink():
        what, hint = "not used: it is a symbolic link", "put the file itself there"
        raise UserError([Problem(where=str(path), what=what, hint=hint)])
    try:
        data = read_private(path, MOST_BYTES + 1)
    except NoValueError as error:
        raise UserError([Problem(where=str(path), what=f"not used: {error}", hint=error.hint)]) from error
    if len(data) > MOST_BYTES:
        raise UserError([Problem(where=str(path), what="not used: larger than 1 MiB")])
    return data


def _from_keychain(login: Login, host: Host) -> bytes:
    try:
        return run_source((*KEYCHAIN, login.keychain), host)
    except NoValueError as error:
        raise NoLoginError from error


@contextmanager
def _locked(login: Login, host: Host, clock: Clock) -> Iterator[None]:
    path = state_directory(host.environ) / "logins" / f"{login.secret}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UserError([problem_of(str(path), error)]) from error
    try:
        _take(handle, path, clock)
        yield
    finally:
        os.close(handle)


def _take(handle: int, path: Path, clock: Clock) -> None:
    end = clock.now() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if clock.now() > end:
                what = f"another agent-sandbox has been refreshing this login for {LOCK_SECONDS:g} seconds"
                raise UserError([Problem(where=str(path), what=what, hint="end it, and try again")]) from error
            clock.sleep(POLL_SECONDS)
        else:
            return
