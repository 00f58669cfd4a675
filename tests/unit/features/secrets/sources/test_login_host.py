import fcntl
import json
import os
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agent_sandbox.agents.login import Expiry, Login, Token
from agent_sandbox.features.secrets.sources import login_host as subject
from agent_sandbox.features.secrets.sources.fetch import Host
from agent_sandbox.features.secrets.sources.login_host import Clock, NoLoginError, current_login, read_login
from agent_sandbox.problems import UserError
from token_endpoint import TokenEndpoint

LOGIN = Login(
    service="a",
    hosts=("api.test",),
    file=".a/login.json",
    folder="A_HOME",
    keychain="A credentials",
    tokens={"access": Token(at="/access", begins="sk-")},
    expires=Expiry(at="/expires", unit="seconds"),
    renew=("client", "status"),
    sign_in=("client", "login"),
)
NOW = 2_000_000_000.0
REAL = "the real token"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    for name in ("project", "home/.a", "bin"):
        (tmp_path / name).mkdir(parents=True)
    return Host(
        root=tmp_path / "project",
        environ={"HOME": str(tmp_path / "home"), "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"},
        seconds=10.0,
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "home" / ".a" / "login.json"


def said(token: str = REAL, *, left: float = 3600) -> str:
    return json.dumps({"access": token, "expires": NOW + left})


def write(file: Path, text: str, mode: int = 0o600) -> None:
    file.write_text(text)
    file.chmod(mode)


def client(tmp_path: Path, script: str) -> None:
    """Install a client on the host machine."""
    program = tmp_path / "bin" / "client"
    program.write_text(f"#!/bin/sh\necho run >>{tmp_path}/runs\n{script}\n")
    program.chmod(0o755)


def runs(tmp_path: Path) -> int:
    log = tmp_path / "runs"
    return len(log.read_text().splitlines()) if log.exists() else 0


def clock(sleep: Callable[[float], None] = lambda _: None) -> Clock:
    return Clock(now=lambda: NOW, sleep=sleep)


def told(host: Host) -> list[str]:
    with pytest.raises(UserError) as rejected:
        current_login(LOGIN, host, clock=clock())
    return [str(problem) for problem in rejected.value.problems]


def test_reads_the_login_from_the_home_directory_or_a_directory_that_a_variable_names(
    host: Host, file: Path, tmp_path: Path
) -> None:
    write(file, said())
    assert read_login(LOGIN, host, clock=clock()).access == "the real token"
    write(tmp_path / "login.json", said("another token"))
    moved = Host(root=host.root, environ={**host.environ, "A_HOME": str(tmp_path)})
    assert read_login(LOGIN, moved, clock=clock()).access == "another token"


def test_without_a_file_there_is_no_login(host: Host) -> None:
    with pytest.raises(NoLoginError):
        read_login(LOGIN, host, platform="linux", clock=clock())


def test_reads_the_keychain_on_macos(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def run(argv: tuple[str, ...], _: Host) -> bytes:
        asked.append(argv)
        return said().encode()

    monkeypatch.setattr(subject, "run_source", run)
    assert read_login(LOGIN, host, platform="darwin", clock=clock()).access == "the real token"
    assert asked == [("/usr/bin/security", "find-generic-password", "-w", "-s", "A credentials")]


def test_a_locked_or_empty_keychain_has_no_login(host: Host) -> None:
    with pytest.raises(NoLoginError):
        read_login(LOGIN, host, platform="darwin", clock=clock())


def test_a_file_that_other_users_can_open_is_not_used(host: Host, file: Path) -> None:
    write(file, said(), 0o644)
    assert told(host) == [f"{file}: not used: other users may open the file; chmod 600 FILE"]


def test_a_file_of_another_user_is_not_used(host: Host, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(file, said())
    user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert told(host) == [f"{file}: not used: the file belongs to another user; chown {user} FILE"]


def test_a_symbolic_link_is_not_followed(host: Host, file: Path, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", said())
    file.symlink_to(tmp_path / "elsewhere")
    assert told(host) == [f"{file}: not used: it is a symbolic link; put the file itself there"]


def test_a_pipe_or_a_huge_file_is_not_used(host: Host, file: Path) -> None:
    os.mkfifo(file, 0o600)
    assert told(host) == [f"{file}: not used: not a regular file"]
    file.unlink()
    write(file, " " * ((1 << 20) + 1))
    assert told(host) == [f"{file}: not used: larger than 1 MiB"]


def test_a_file_that_the_sandbox_can_see_is_not_used(host: Host) -> None:
    inside = Host(root=host.root, environ={**host.environ, "A_HOME": str(host.root)})
    write(host.root / "login.json", said())
    what = "the sandbox can see this credential file; keep it in your home directory, outside all projects"
    assert told(inside) == [f"{host.root / 'login.json'}: {what}"]


def test_a_file_that_is_being_written_is_read_again(host: Host, file: Path) -> None:
    write(file, said()[:20])
    waits = []

    def finish(_: float) -> None:
        waits.append(1)
        write(file, said())

    assert read_login(LOGIN, host, clock=clock(finish)).access == "the real token"
    assert len(waits) == 1


def test_a_file_of_unknown_shape_is_reported_without_its_content(host: Host, file: Path) -> None:
    write(file, '{"version": 9, "access": {"sealed": "a very secret text"}}')
    what = "this credential file has an unknown shape: it has no access token at /access"
    how = "nothing was passed on; sign in again, or report this with the version of the client"
    assert told(host) == [f"{file}: {what}; {how}"]


def test_does_not_run_the_client_if_the_token_is_valid(host: Host, file: Path, tmp_path: Path) -> None:
    client(tmp_path, "exit 1")
    write(file, said(left=241))
    assert current_login(LOGIN, host, clock=clock()).access == "the real token"
    assert runs(tmp_path) == 0


def test_the_client_refreshes_a_token_that_is_about_to_expire(host: Host, file: Path, tmp_path: Path) -> None:
    client(tmp_path, f"printf %s '{said('a new token')}' >{file}")
    write(file, said(left=239))
    assert current_login(LOGIN, host, clock=clock()).access == "a new token"
    assert runs(tmp_path) == 1


def test_a_token_that_could_not_be_refreshed_is_used_while_it_is_valid(host: Host, file: Path, tmp_path: Path) -> None:
    client(tmp_path, "exit 1")
    write(file, said(left=60))
    assert current_login(LOGIN, host, clock=clock()).access == "the real token"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("true", ", and `client status` did not refresh it"),
        ("echo 400 invalid_grant >&2; exit 1", ": `client status` failed: it exited with 1: 400 invalid_grant"),
        ("echo 429 slow down >&2; exit 1", ": `client status` failed: it exited with 1: 429 slow down"),
        ("echo 500 sorry; exit 1", ": `client status` failed: it exited with 1"),
        (None, ", and client is not installed on this machine"),
    ],
)
def test_an_expired_login_says_how_to_sign_in_again(
    host: Host, file: Path, tmp_path: Path, script: str | None, why: str
) -> None:
    if script is not None:
        client(tmp_path, script)
    write(file, said(left=-5))
    assert told(host) == [
        f"{file}: this login has expired{why}; run `client login` on this machine, then agent-sandbox secret sync"
    ]


def test_reports_a_wrong_clock_if_a_new_token_has_already_expired(host: Host, file: Path, tmp_path: Path) -> None:
    client(tmp_path, f"printf %s '{said('a new token', left=-3600)}' >{file}")
    write(file, said(left=-7200))
    what = "by the clock of this machine, this login has expired, although the client has just refreshed it"
    assert told(host) == [f"{file}: {what}; set the clock, then agent-sandbox secret sync"]


def test_a_client_that_hangs_is_ended(host: Host, file: Path, tmp_path: Path) -> None:
    client(tmp_path, "sleep 60")
    write(file, said(left=-5))
    quick = Host(root=host.root, environ=host.environ, seconds=0.2)
    assert "`client status` failed: no answer within 0.2 seconds" in told(quick)[0]


def test_a_client_in_the_project_is_never_run(host: Host, file: Path) -> None:
    program = host.root / "client"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    write(file, said(left=-5))
    inside = Host(root=host.root, environ={**host.environ, "PATH": f"{host.root}:/usr/bin:/bin"})
    assert f"the agent could replace {program}" in told(inside)[0]


def test_uses_the_token_that_another_process_has_refreshed_meanwhile(host: Host, file: Path, tmp_path: Path) -> None:
    client(tmp_path, "true")
    write(file, said(left=-5))
    lock = tmp_path / "home/.local/state/agent-sandbox/logins/a.login.lock"
    lock.parent.mkdir(parents=True)
    handle = os.open(lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)

    def other_is_done(_: float) -> None:
        write(file, said("a new token"))
        fcntl.flock(handle, fcntl.LOCK_UN)

    assert current_login(LOGIN, host, clock=clock(other_is_done)).access == "a new token"
    os.close(handle)
    assert runs(tmp_path) == 0


@pytest.mark.parametrize(
    ("seconds", "own"), [(3600, 1), (60, 1), (60, 0)], ids=["once for all", "each in turn", "a client without a lock"]
)
def test_simultaneous_refreshes_by_sandboxes_and_the_host_machine_do_not_sign_out(
    host: Host, file: Path, tmp_path: Path, seconds: float, own: int
) -> None:
    """Only the sandboxes start a client that takes no lock."""
    program, lock, sandboxes = tmp_path / "bin" / "client", tmp_path / "client.lock", 3
    begin = threading.Barrier(sandboxes + own)

    def sandbox() -> str:
        begin.wait()
        return current_login(LOGIN, host).access

    def host_machine() -> None:
        begin.wait()
        subprocess.run([program], check=True)

    with TokenEndpoint(seconds) as endpoint, ThreadPoolExecutor(sandboxes + own) as pool:
        endpoint.write_client(program, file, lock if own else None)
        write(file, endpoint.tokens(100))
        mine = [pool.submit(host_machine) for _ in range(own)]
        passed_on = {one.result() for one in [pool.submit(sandbox) for _ in range(sandboxes)]}
        assert [one.result() for one in mine] == [None] * own
        refreshes = 1 if seconds == 3600 else sandboxes + own
        assert (endpoint.signed_out, endpoint.refreshes) == (False, refreshes)
        assert passed_on <= {f"access-token-{number}" for number in range(1, refreshes + 1)}
        held = json.loads(file.read_text())
        assert (held["access"], held["refresh"]) == (endpoint.access, endpoint.refresh)


def test_stops_waiting_for_the_refresh_of_another_process_after_90_seconds(
    host: Host, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client(tmp_path, "true")
    write(file, said(left=-5))
    times = iter(range(0, 10_000, 50))
    slow = Clock(now=lambda: NOW + next(times), sleep=lambda _: None)
    monkeypatch.setattr(fcntl, "flock", lambda *_: (_ for _ in ()).throw(BlockingIOError))
    with pytest.raises(UserError) as rejected:
        current_login(LOGIN, host, clock=slow)
    (problem,) = rejected.value.problems
    assert problem.what == "another agent-sandbox has been refreshing this login for 90 seconds"
