import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_sandbox.features.secrets.sources import fetch as subject
from agent_sandbox.features.secrets.sources.fetch import Host
from agent_sandbox.features.secrets.sources.ssh_key import BEGIN, END
from agent_sandbox.problems import UserError
from table_tests import each

VALUE = b"correct horse"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A user's machine: a project, a home, and a folder of programs."""
    for name in ("project", "home", "bin"):
        (tmp_path / name).mkdir()
    environ = {"HOME": str(tmp_path / "home"), "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "A_KEY": "correct horse"}
    return Host(root=tmp_path / "project", environ=environ, seconds=20.0)


def fetch(name: str, source: str, host: Host) -> bytes:
    """Return the value that a source gives."""
    return subject.fetch(name, source, host).value


def problems(source: str, host: Host) -> list[str]:
    with pytest.raises(UserError) as raised:
        fetch("a", source, host)
    return [str(problem) for problem in raised.value.problems]


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_variable_is_a_source(host: Host) -> None:
    assert fetch("a", "env:A_KEY", host) == VALUE
    assert problems("env:NONE", host) == [
        (
            "env:NONE: the source of a gives no value: the variable NONE is not set; "
            "export NONE, then agent-sandbox secret sync"
        )
    ]


def test_a_command_is_a_source_and_runs_without_a_shell(host: Host, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "op", 'printf "%s|" "$@"; pwd')
    home = tmp_path / "home"
    assert fetch("a", "op read 'op://a b/c' ';' '$(id)'", host) == f"read|op://a b/c|;|$(id)|{home}".encode()


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("true", "no secret: it is empty; the source has to give the secret on one line"),
        ("echo", "no secret: it is empty; the source has to give the secret on one line"),
        (
            "echo correct horse; echo battery",
            "no secret: it has more than one line; give only the line with the secret",
        ),
        (
            "echo short",
            (
                "no secret: it has fewer than 8 characters; "
                "echoes of a short secret cannot be told from other text in responses; create a longer one"
            ),
        ),
        (
            "printf 'caf\\303\\251 au lait'",
            (
                "no secret: it contains characters that are not printable ASCII; "
                "a header cannot carry others; give encoded secrets (base64, hex) in their encoded form"
            ),
        ),
        (
            "echo the value; echo first >&2; echo not signed in >&2; exit 3",
            (
                "no value: it exited with 3: not signed in; "
                "run it in a terminal; it gets none here, so it cannot ask for a password"
            ),
        ),
        (
            "exit 1",
            "no value: it exited with 1; run it in a terminal; it gets none here, so it cannot ask for a password",
        ),
    ],
)
def test_a_command_that_gives_no_secret_is_reported(host: Host, tmp_path: Path, script: str, what: str) -> None:
    program(tmp_path / "bin" / "get", script)
    assert problems("get", host) == [f"get: the source of a gives {what}"]


def test_a_command_that_hangs_is_ended(host: Host, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "get", "sleep 60")
    brief = Host(root=host.root, environ=host.environ, seconds=0.1)
    assert problems("get", brief) == [
        (
            "get: the source of a gives no value: no answer within 0.1 seconds; "
            "it gets no terminal to ask on: sign in or unlock it first, then agent-sandbox secret sync"
        )
    ]


def test_a_command_that_prints_without_end_is_ended(host: Host) -> None:
    assert problems("yes", host) == [
        (
            "yes: the source of a gives no value: it prints more than 1 MiB; "
            "the source has to give the secret on one line"
        )
    ]


def test_a_command_that_leaves_a_process_behind_gives_its_value_at_once(host: Host, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "get", f"sleep 60 & echo $! >{tmp_path / 'pid'}; echo correct horse")
    brief = Host(root=host.root, environ=host.environ, seconds=10.0)
    assert fetch("a", "get", brief) == VALUE
    os.kill(int((tmp_path / "pid").read_text()), 9)


def test_a_command_gets_no_terminal(host: Host, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "get", "read answer; (: </dev/tty) 2>/dev/null && echo it has one; echo none at all")
    assert fetch("a", "get", host) == b"none at all"


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("no-such-program x", "there is no such program; for a pipe or a redirection, write: sh -c '...'"),
        ("", "there is no such program; for a pipe or a redirection, write: sh -c '...'"),
        ("op 'x", "not a command: no closing quotation; quote it as in a shell"),
    ],
)
def test_reports_an_invalid_command(host: Host, source: str, what: str) -> None:
    assert problems(source, host)[0].endswith(f"the source of a gives no value: {what}")


@pytest.mark.parametrize("linked", [False, True])
def test_runs_no_program_that_the_agent_could_replace(host: Host, tmp_path: Path, *, linked: bool) -> None:
    place = program((tmp_path if linked else host.root) / "op", "echo correct horse")
    if linked:
        (host.root / "op").symlink_to(place)
    environ = {**host.environ, "PATH": f"{host.root}:/usr/bin:/bin"}
    assert problems("op read x", Host(root=host.root, environ=environ)) == [
        (
            f"op read x: the source of a gives no value: the agent could replace {host.root / 'op'}; "
            "use a program outside the project"
        )
    ]


def test_shells_and_interpreter_lines_run_no_program_of_the_project(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cut", "bash"):
        program(host.root / name, "echo evil horse")
    environ = {**host.environ, "PATH": f"{host.root}::.:{host.environ['PATH']}"}
    monkeypatch.setenv("PATH", environ["PATH"])
    here = Host(root=host.root, environ=environ)
    assert fetch("a", "sh -c 'echo correct horse,x | cut -d, -f1'", here) == VALUE
    (tmp_path / "bin" / "op").write_text("#!/usr/bin/env bash\necho correct horse\n")
    (tmp_path / "bin" / "op").chmod(0o755)
    assert fetch("a", "op", here) == VALUE


def test_rejects_files_and_programs_of_another_project(host: Host, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / ".devcontainer").mkdir(parents=True)
    file = other / "key"
    file.write_bytes(VALUE)
    file.chmod(0o600)
    assert told_of(file, host) == "the sandbox can see this file; move it out of the project"
    tool = program(other / "op", "echo correct horse")
    (what,) = problems(tool, host)
    assert what.endswith(f"the agent could replace {tool}; use a program outside the project")


def test_a_private_file_of_the_user_is_a_source(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "home" / "key"
    file.write_bytes(VALUE + b"\r\n")
    file.chmod(0o600)
    assert fetch("a", f"file:{file}", host) == VALUE


def told_of(file: Path, host: Host) -> str:
    (told,) = problems(f"file:{file}", host)
    return told.removeprefix(f"file:{file}: the source of a gives no value: ")


def test_a_file_that_others_could_read_or_replace_is_not_a_source(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "home" / "key"
    assert told_of(file, host) == "it cannot be read: No such file or directory"
    file.write_bytes(VALUE)
    file.chmod(0o640)
    assert told_of(file, host) == "other users may open the file; chmod 600 FILE"
    file.chmod(0o600)
    (tmp_path / "home" / "link").symlink_to(file)
    assert told_of(tmp_path / "home" / "link", host) == f"the path has a symbolic link; write file:{file}"
    (tmp_path / "linked").symlink_to(tmp_path / "home")
    assert told_of(tmp_path / "linked" / "key", host) == f"the path has a symbolic link; write file:{file}"
    assert told_of(tmp_path / "home", host) == "not a regular file"
    assert told_of(Path("key"), host).startswith("not an absolute path; write file:")


def test_a_file_of_another_user_is_not_a_source(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "home" / "key"
    file.write_bytes(VALUE)
    file.chmod(0o600)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert told_of(file, host) == "the file belongs to another user; chown 4711 FILE"


def test_a_file_that_the_sandbox_can_see_is_not_a_source(host: Host, tmp_path: Path) -> None:
    settings = tmp_path / "home" / ".config" / "agent-sandbox"
    settings.mkdir(parents=True)
    for folder in (host.root, settings):
        file = folder / "key"
        file.write_bytes(VALUE)
        file.chmod(0o600)
        assert told_of(file, host) == "the sandbox can see this file; move it out of the project"


def test_reads_the_keyring_with_the_keyring_command(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(argv: tuple[str, ...], _: Host) -> bytes:
        asked.append(argv)
        return VALUE

    monkeypatch.setattr(subject, "find_spec", lambda _: SimpleNamespace())
    monkeypatch.setattr(subject, "run_source", run)
    assert fetch("a", "keyring:api.test/me", host) == VALUE
    assert asked == [(sys.executable, "-P", "-m", "keyring", "get", "api.test", "me")]


def test_a_missing_keyring_is_reported(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "find_spec", lambda _: None)
    assert problems("keyring:api.test/me", host) == [
        (
            "keyring:api.test/me: the source of a gives no value: "
            "the Python package `keyring` is not installed; install it beside agent-sandbox"
        )
    ]
    assert problems("keyring:api.test", host)[0].endswith("it names no entry; write keyring:SERVICE/USERNAME")


def test_a_locked_keyring_is_reported(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keyring").mkdir()
    script = "import sys\nsys.exit('KeyringLocked: Failed to unlock the collection!')\n"
    (tmp_path / "keyring" / "__main__.py").write_text(script)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(subject, "find_spec", lambda _: SimpleNamespace())
    assert problems("keyring:api.test/me", host) == [
        (
            "keyring:api.test/me: the source of a gives no value: it exited with 1: "
            "KeyringLocked: Failed to unlock the collection!; "
            "run it in a terminal; it gets none here, so it cannot ask for a password"
        )
    ]


def test_the_value_of_an_ssh_key_includes_the_committers_email_address(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gitconfig").write_text("[user]\n\temail = me@example.com\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    key = tmp_path / "home" / "key"
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key), check=True)
    text = "".join(key.read_text().splitlines()[1:-1])
    assert fetch("a", f"ssh-key:{key}", host) == f"me@example.com {text}".encode()
    key.chmod(0o644)
    assert problems(f"ssh-key:{key}", host)[0].endswith("other users may open the file; chmod 600 FILE")
    key.chmod(0o600)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    assert problems(f"ssh-key:{key}", host) == [
        (
            f"ssh-key:{key}: the source of a gives no value: git does not know your e-mail address; "
            "git config --global user.email YOU@EXAMPLE.COM"
        )
    ]
    key.write_text("x\n")
    assert problems(f"ssh-key:{key}", host) == [
        (
            f"ssh-key:{key}: the source of a gives no value: not a private key of OpenSSH; "
            "create one: ssh-keygen -t ed25519 -N '' -f FILE"
        )
    ]
    monkeypatch.setattr(subject, "ask_git", no_git)
    key.write_text(f"{BEGIN}\n{text}\n{END}\n")
    assert problems(f"ssh-key:{key}", host)[0].endswith("git cannot be run; install git")


def no_git(*_: str, cwd: Path) -> None:
    raise FileNotFoundError(cwd)


def test_the_keys_of_an_aws_profile_are_a_source(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "home" / "credentials"
    file.write_text("[default]\naws_access_key_id = AKIA1\naws_secret_access_key = s3cret/key\n")
    file.chmod(0o600)
    own = Host(root=host.root, environ={**host.environ, "AWS_SHARED_CREDENTIALS_FILE": str(file), "PATH": "/none"})
    assert fetch("a", "aws:default", own) == b"AKIA1:s3cret/key"
    file.chmod(0o644)
    assert problems("aws:default", own)[0].endswith("other users may open the file; chmod 600 FILE")
    file.chmod(0o600)
    said = [problems(source, own)[0].partition("gives no value: ")[2] for source in ("aws:other", "aws:", "aws:-x")]
    assert said == [
        "the profile other has no keys; aws configure --profile other",
        "the name of the profile is missing or invalid; write aws:PROFILE, such as aws:default",
        "the name of the profile is missing or invalid; write aws:PROFILE, such as aws:default",
    ]


@each(
    ("seconds", "left"),
    [(3600, 3600), (-1, "gives no value: it has expired; sign in again, as with aws sso login")],
)
def test_keys_expire_at_the_time_that_their_source_prints(
    host: Host, tmp_path: Path, seconds: int, left: float | str
) -> None:
    end = datetime.fromtimestamp(time.time() + seconds, UTC).isoformat()
    keys = f'{{"AccessKeyId": "ASIA2", "SecretAccessKey": "s3cret", "Expiration": "{end}"}}'
    program(tmp_path / "bin" / "aws", f"echo '{keys}'")
    if isinstance(left, str):
        for source in ("aws:work", "aws sso"):
            assert problems(source, host) == [f"{source}: the source of a {left}"]
    else:
        for source in ("aws:work", "aws sso", "sh -c aws"):
            found = subject.fetch("a", source, host)
            assert found.value == b"ASIA2:s3cret"
            assert found.left == pytest.approx(left, abs=60)


def test_any_source_can_say_when_its_value_ends(host: Host, tmp_path: Path) -> None:
    said = '{"token": "0123456789", "Expiration": "%s"}'
    for end, left in (("2999-01-01T00:00:00Z", True), ("soon", False), ("", False)):
        file = tmp_path / "home" / "token.json"
        file.write_text(said % end)
        file.chmod(0o600)
        found = subject.fetch("a", f"file:{file}", host)
        assert (found.value.decode(), found.left is not None) == (said % end, left)
    keys = '{"AccessKeyId": "ASIA2", "SecretAccessKey": "s3cret",\n "Expiration": "soon"}'
    program(tmp_path / "bin" / "sso", f"echo '{keys}'")
    assert problems("sso", host) == [
        (
            "sso: the source of a gives no value: its `Expiration` is not a time in ISO 8601; "
            "the program has to print one, or none"
        )
    ]


def test_reads_the_keys_of_a_profile_from_the_aws_command(host: Host, tmp_path: Path) -> None:
    program(tmp_path / "bin" / "aws", """echo '{"AccessKeyId": "ASIA2",\n "SecretAccessKey": "'"$*"'"}'""")
    assert fetch("a", "aws:work", host) == b"ASIA2:configure export-credentials --profile work"
    program(tmp_path / "bin" / "aws", "echo the session has expired >&2; exit 255")
    assert problems("aws:work", host) == [
        (
            f"aws:work: the source of a gives no value: {tmp_path}/home/.aws/credentials has no keys for work, and "
            "`aws configure export-credentials --profile work` says: it exited with 255: the session has expired; "
            "sign in first; version 1 of aws does not have this command"
        )
    ]
