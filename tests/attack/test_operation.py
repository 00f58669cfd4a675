"""Policy file, control socket, health check and log of the proxy: rows Y1, Y2, B12, L3, L4, D9."""

import json
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from capture_server import Capture
from fake_upstream_proxy import FINDS_NOBODY
from proxy_stand import ProxyProcess, get

GOOD = "version: 1\ndomains: [allowed.test]\n"
BAD = "version: 1\ndomain: [allowed.test]\n"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    """A proxy with one allowed host."""
    folder = tmp_path_factory.mktemp("operation")
    with (
        Capture() as capture,
        ProxyProcess(folder, GOOD, resolve={("allowed.test", 80): capture.port}) as proxy,
    ):
        yield proxy


@pytest.fixture
def running(started: ProxyProcess) -> ProxyProcess:
    """The proxy, with its good policy in force."""
    started.policy_file.write_text(GOOD)
    assert started.ask_control("reload")["ok"] is True
    started.forget()
    return started


def asked(proxy: ProxyProcess, host: str = "allowed.test") -> bytes:
    return proxy.say(get(f"http://{host}/", host, "Accept: application/json"))


def health(proxy: ProxyProcess) -> tuple[int, str]:
    done = proxy.command("health", f"--proxy={proxy.ready['listening']}")
    return done.returncode, done.stderr


@pytest.mark.parametrize("policy", ["", "{}\n", "# nothing\n", "version: 1\n", "version: 1\ndomains: []\n", BAD])
def test_an_empty_or_invalid_policy_allows_nothing(tmp_path: Path, policy: str) -> None:
    with (
        Capture() as capture,
        ProxyProcess(tmp_path, policy, {("allowed.test", 80): capture.port}) as proxy,
    ):
        answer = asked(proxy)
        assert answer.startswith(b"HTTP/1.1 403")
        assert b"policy" in answer
        assert capture.connections == 0


def test_denials_and_health_name_the_problem_of_an_invalid_policy(tmp_path: Path) -> None:
    with ProxyProcess(tmp_path, BAD) as proxy:
        body = json.loads(asked(proxy).partition(b"\r\n\r\n")[2])
        assert "policy.yaml:2:1: unknown key 'domain'" in body["reason"]
        code, said = health(proxy)
        assert code == 1
        assert "policy.yaml:2:1" in said
        assert proxy.ask_control("status")["policy"]["valid"] is False
        proxy.policy_file.write_text(GOOD)
        assert proxy.ask_control("reload")["ok"] is True
        assert health(proxy) == (0, "")


def test_a_missing_policy_denies_all(tmp_path: Path) -> None:
    gone = f"import os\nos.unlink({str(tmp_path / 'policy.yaml')!r})"
    with (
        Capture() as capture,
        ProxyProcess(tmp_path, GOOD, {("allowed.test", 80): capture.port}, sabotage=gone) as proxy,
    ):
        answer = asked(proxy)
        assert answer.startswith(b"HTTP/1.1 403")
        assert b"policy.yaml" in answer
        assert health(proxy)[0] == 1
        assert capture.connections == 0


def test_a_reload_applies_a_valid_policy_and_keeps_the_old_one_otherwise(running: ProxyProcess) -> None:
    proxy = running
    digest = proxy.ask_control("status")["policy"]["digest"]
    proxy.policy_file.write_text(BAD)
    reloaded = proxy.command("reload")
    assert reloaded.returncode == 1
    verdict = json.loads(reloaded.stdout)
    assert (verdict["ok"], verdict["digest"]) == (False, digest)
    assert "unknown key 'domain'" in verdict["problems"][0]
    assert asked(proxy).startswith(b"HTTP/1.1 200")
    proxy.policy_file.write_text("version: 1\ndomains: [other.test]\n")
    reloaded = proxy.command("reload")
    assert reloaded.returncode == 0
    assert json.loads(reloaded.stdout)["digest"] != digest
    assert asked(proxy).startswith(b"HTTP/1.1 403")


def test_status_counts_requests_and_denials_lists_the_latest_denial(running: ProxyProcess) -> None:
    proxy = running
    before = proxy.ask_control("status")["requests"]
    asked(proxy)
    asked(proxy, "evil.test")
    asked(proxy, "more.test")
    status = json.loads(proxy.command("status").stdout)
    assert status["requests"] == {**before, "allowed": before["allowed"] + 1, "denied": before["denied"] + 2}
    assert status["listening"] == proxy.ready["listening"]
    assert (status["policy"]["file"], status["policy"]["valid"]) == (str(proxy.policy_file), True)
    denials = json.loads(proxy.command("denials", "--count=1").stdout)["denials"]
    assert [line["host"] for line in denials] == ["more.test"]


def test_health_checks_do_not_count_as_requests_or_denials(running: ProxyProcess) -> None:
    before = [running.ask_control("denials"), running.ask_control("status")["requests"]]
    assert health(running) == (0, "")
    assert before == [running.ask_control("denials"), running.ask_control("status")["requests"]]
    asked(running, "last.test")
    running.line(host="last.test")
    first = sum(line["event"] == "health" for line in running.lines)
    assert health(running) == (0, "")
    asked(running, "next.test")
    running.line(host="next.test")
    assert first == sum(line["event"] == "health" for line in running.lines)


@pytest.mark.parametrize(
    ("target", "host", "fields", "event"),
    [
        ("http://agent-sandbox.invalid/", "agent-sandbox.invalid", {}, "start"),
        ("http://agent-sandbox.invalid/?news", "agent-sandbox.invalid", {}, "request"),
        ("http://agent-sandbox.invalid/news", "agent-sandbox.invalid", {}, "request"),
        ("http://agent-sandbox.invalid:81/", "agent-sandbox.invalid:81", {}, "request"),
        ("http://agent-sandbox.invalid/", "agent-sandbox.invalid", {"method": "NEWS"}, "request"),
        ("http://127.0.0.1:9/agent-sandbox-health?news", "127.0.0.1:9", {}, "request"),
        ("http://127.0.0.1:9/agent-sandbox-health", "127.0.0.1:9", {"method": "NEWS"}, "request"),
    ],
)
def test_records_requests_that_resemble_the_stacks_own_health_checks(
    running: ProxyProcess, target: str, host: str, fields: dict[str, str], event: str
) -> None:
    assert running.say(get(target, host, **fields)).startswith(b"HTTP/1.1 403")
    assert running.line(host=host.partition(":")[0])["event"] == event


def test_denies_and_records_a_tunnelled_request_to_the_stacks_own_name(running: ProxyProcess) -> None:
    with running.tls("agent-sandbox.invalid") as stream:
        stream.sendall(get("/", "agent-sandbox.invalid"))
        stream.recv(65_536)
    assert running.line(event="request", host="agent-sandbox.invalid")["decision"] == "deny"


def test_only_the_owner_can_read_the_ca_key_and_the_control_socket(running: ProxyProcess) -> None:
    proxy = running
    modes = {
        name: stat.S_IMODE(Path(path).stat().st_mode)
        for name, path in {
            "socket": proxy.ready["control"],
            "key": f"{proxy.folder}/state/private/ca.pem",
            "certificate": proxy.ready["ca"],
        }.items()
    }
    assert modes == {"socket": 0o600, "key": 0o600, "certificate": 0o644}
    assert b"PRIVATE" not in Path(proxy.ready["ca"]).read_bytes()


def test_the_ca_survives_a_restart(tmp_path: Path) -> None:
    with ProxyProcess(tmp_path, GOOD) as proxy:
        first = Path(proxy.ready["ca"]).read_bytes()
    with ProxyProcess(tmp_path, GOOD) as proxy:
        assert Path(proxy.ready["ca"]).read_bytes() == first


@pytest.mark.unasked
def test_log_file_and_stdout_match_and_health_fails_once_the_proxy_has_stopped(tmp_path: Path) -> None:
    with ProxyProcess(tmp_path, GOOD) as proxy:
        asked(proxy, "evil.test")
        asked(proxy, "more.test")
        proxy.stop()
        written = [json.loads(line) for line in Path(proxy.ready["log"]).read_text().splitlines()]
        assert [line["host"] for line in written] == ["evil.test", "more.test"]
        assert written == proxy.lines
        assert health(proxy)[0] == 1


def test_a_name_that_does_not_resolve_is_a_502_on_each_try(tmp_path: Path) -> None:
    with ProxyProcess(tmp_path, "version: 1\ndomains: [nowhere.invalid]\n", sabotage=FINDS_NOBODY) as proxy:
        for _ in range(2):
            answer = asked(proxy, "nowhere.invalid")
            assert answer.startswith(b"HTTP/1.1 502 Bad Gateway\r\nx-agent-sandbox: failed")
            assert b"nowhere.invalid does not resolve" in answer


def test_reports_a_port_that_is_in_use(tmp_path: Path) -> None:
    with Capture() as taken:
        (tmp_path / "policy.yaml").write_text(GOOD)
        command = [sys.executable, "-P", "-m", "agent_sandbox.proxy", "run", f"--policy={tmp_path}/policy.yaml"]
        command += [f"--listen=127.0.0.1:{taken.port}", f"--state={tmp_path}/state"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    where = f"--listen 127.0.0.1:{taken.port}"
    why = "the port is in use; stop the program that uses it, or choose another port; 0 takes any"
    assert (done.returncode, done.stderr) == (1, f"{where}: cannot listen: {why}\n")
