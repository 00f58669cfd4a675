import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agent_sandbox.proxy.control import health as subject
from agent_sandbox.proxy.control.health import sickness

type Diagnose = Callable[[Mapping[str, object], bytes | None], list[str]]

BLOCKED = b"HTTP/1.1 403 Forbidden\r\nX-Agent-Sandbox: blocked\r\n\r\n"
VALID = {"policy": {"valid": True, "problems": []}}
PROXY = ("192.0.2.1", 8080)


@pytest.fixture
def diagnose(monkeypatch: pytest.MonkeyPatch) -> Diagnose:
    """Diagnose a proxy with this status and answer."""

    def diagnosed(status: Mapping[str, object], answer: bytes | None) -> list[str]:
        def create_connection(address: object, _: float) -> socket.socket:
            assert address == PROXY
            if answer is None:
                raise ConnectionRefusedError("refused")
            ours, theirs = socket.socketpair()

            def play() -> None:
                with theirs:
                    asked.append(theirs.recv(65_536))
                    theirs.sendall(answer)

            threading.Thread(target=play).start()
            return ours

        asked: list[bytes] = []
        monkeypatch.setattr(socket, "create_connection", create_connection)
        monkeypatch.setattr(subject, "ask", lambda *_, **__: status)
        found = sickness(Path("control.sock"), PROXY)
        assert not asked or asked == [subject.QUESTION]
        return found

    return diagnosed


def test_a_proxy_that_denies_and_has_a_policy_is_healthy(
    diagnose: Diagnose,
) -> None:
    assert diagnose(VALID, BLOCKED) == []


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\n\r\nx-agent-sandbox: blocked", b"", b"HTTP/1.1 502 No\r\n\r\n"]
)
def test_a_proxy_that_does_not_deny_is_unhealthy(diagnose: Diagnose, answer: bytes) -> None:
    assert diagnose(VALID, answer) == ["the proxy does not deny what must be denied"]


def test_a_proxy_that_does_not_answer_is_unhealthy(
    diagnose: Diagnose,
) -> None:
    assert diagnose(VALID, None) == ["the proxy does not answer at 192.0.2.1:8080: refused"]


@pytest.mark.parametrize(
    ("status", "symptom"),
    [
        ({"policy": {"valid": False, "problems": ["p.yaml:1: bad"]}}, "the policy could not be loaded: p.yaml:1: bad"),
        ({}, "the policy could not be loaded: no status"),
    ],
)
def test_a_proxy_without_a_policy_is_unhealthy(diagnose: Diagnose, status: Mapping[str, object], symptom: str) -> None:
    assert diagnose(status, BLOCKED) == [symptom]
