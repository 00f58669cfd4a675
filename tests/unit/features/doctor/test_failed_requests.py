import json
from pathlib import Path

import pytest

from agent_sandbox.engines.compose.driver import DRIVER
from agent_sandbox.engines.protocol import Machine
from agent_sandbox.engines.result import CheckResult, fail, ok, warn
from agent_sandbox.features.doctor import link_mtu
from agent_sandbox.features.doctor.upstream import requests
from agent_sandbox.proxy.tls.failure import LATE, explain
from fake_docker import FakeDocker
from fake_stack import with_containers

INTERCEPTED = fail(
    "requests",
    "requests to a.test fail, because the certificate is not from a public CA: does your network intercept TLS?",
    "put its CA into ~/.config/agent-sandbox, name it in policy.yaml there (`settings: {upstream: {ca: FILE}}`), "
    "then agent-sandbox proxy reload",
)


LISTED = "agent-sandbox status lists them"
PROXIED = "settings: {upstream: {proxy: 'http://proxy.test:3128'}}\n"


def row(reason: str, *, time: str = "2026-01-02T10:00:01.000Z", host: str = "a.test") -> dict[str, str]:
    return {"time": time, "host": host, "reason": reason}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / ".devcontainer" / "docker-compose.yml").write_text(
        'name: app-1\nx-agent-sandbox: {agent: example, dev: "1000:1000"}\nservices: {}\n'
    )
    return Machine(path=tmp_path, cwd=tmp_path, driver=DRIVER)


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ([], ok("requests", "none failed since the policy was loaded")),
        ([row("gone", time="2026-01-02T09:59:59.000Z")], ok("requests", "none failed since the policy was loaded")),
        ([row(explain("unable to get local issuer certificate"))], INTERCEPTED),
        ([row(explain("self-signed certificate in certificate chain")), row("gone", host="b.test")], INTERCEPTED),
        ([row(explain("self-signed certificate"))] * 2, INTERCEPTED),
        (
            [row("b.test does not resolve", host="b.test")],
            warn(
                "requests",
                "1 of the last requests failed, such as one to b.test: b.test does not resolve",
                LISTED,
            ),
        ),
    ],
)
def test_says_why_allowed_requests_fail(
    machine: Machine, docker: FakeDocker, last: list[dict[str, str]], expected: CheckResult
) -> None:
    answer = {"policy": {"loaded": "2026-01-02T10:00:00Z"}, "failed": {"count": len(last), "last": last}}
    docker.says("agent_sandbox.proxy status", out=json.dumps(answer))
    with_containers(docker, proxy="healthy")
    assert requests(machine) == expected


@pytest.mark.parametrize(
    ("mtu", "policy", "expected"),
    [
        (
            1280,
            "",
            fail(
                "requests",
                "requests to a.test fail, because the network drops packets of more than 1280 bytes: do you use a VPN?",
                "write `mtu: 1280` into .devcontainer/sandbox.yaml, then agent-sandbox down, and agent-sandbox up",
            ),
        ),
        (0, "", warn("requests", f"1 of the last requests failed, such as one to a.test: {LATE}", LISTED)),
        (1280, PROXIED, warn("requests", f"1 of the last requests failed, such as one to a.test: {LATE}", LISTED)),
    ],
)
def test_looks_for_a_small_link_after_a_handshake_that_did_not_end(
    machine: Machine,
    docker: FakeDocker,
    monkeypatch: pytest.MonkeyPatch,
    *,
    mtu: int,
    policy: str,
    expected: CheckResult,
) -> None:
    machine.project.policy.write_text(policy)
    monkeypatch.setattr(link_mtu, "link_mtu", lambda *place: mtu if place == ("a.test", 8443) else 0)
    answer = {"policy": {"loaded": ""}, "failed": {"count": 1, "last": [row(LATE) | {"port": 8443}]}}
    docker.says("agent_sandbox.proxy status", out=json.dumps(answer))
    with_containers(docker, proxy="healthy")
    assert requests(machine) == expected


def test_says_nothing_about_the_requests_of_a_stack_that_is_not_running(machine: Machine, docker: FakeDocker) -> None:
    with_containers(docker, proxy="exited")
    assert requests(machine) == ok("requests", "not running")
