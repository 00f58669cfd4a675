"""The health check: the proxy answers, its policy is valid, and it denies a request that must be denied."""

import socket
from pathlib import Path

from agent_sandbox.proxy.control.client import ask

# No wildcard allows this address, the dialler refuses it, and even a proxy that allowed it would reach nothing there.
HOST, PORT, PATH = PROBE = ("127.0.0.1", 9, "/agent-sandbox-health")
QUESTION = f"GET http://{HOST}:{PORT}{PATH} HTTP/1.1\r\nHost: {HOST}:{PORT}\r\nConnection: close\r\n\r\n".encode()
SECONDS = 3.0


def sickness(control: Path, proxy: tuple[str, int]) -> list[str]:
    """Return all problems, [] if healthy. Raises `UserError` if the control socket does not answer."""
    return [*_of_policy(ask(control, {"verb": "status"}, seconds=SECONDS)), *_of_denial(proxy)]


def _of_policy(status: dict[str, object]) -> list[str]:
    policy = status.get("policy")
    if not isinstance(policy, dict) or policy.get("valid") is not True:
        problems = policy.get("problems") if isinstance(policy, dict) else None
        return [f"the policy could not be loaded: {problem}" for problem in problems or ["no status"]]
    return []


def _of_denial(proxy: tuple[str, int]) -> list[str]:
    try:
        with socket.create_connection(proxy, SECONDS) as connection:
            connection.settimeout(SECONDS)
            connection.sendall(QUESTION)
            answer = _read_all(connection)
    except OSError as error:
        return [f"the proxy does not answer at {proxy[0]}:{proxy[1]}: {error}"]
    head = answer.partition(b"\r\n\r\n")[0].lower()
    if b"\r\nx-agent-sandbox: blocked" not in head:
        return ["the proxy does not deny what must be denied"]
    return []


def _read_all(connection: socket.socket) -> bytes:
    answer = b""
    while len(answer) < 65_536 and (data := connection.recv(65_536)):
        answer += data
    return answer
