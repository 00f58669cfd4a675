"""Ask the control socket without asyncio, whose import takes longer than the question: health checks ask often."""

import json
import socket
import time
from collections.abc import Mapping
from pathlib import Path

from agent_sandbox.bounded_json import read_json
from agent_sandbox.problems import Problem, UserError


def ask(path: Path, question: Mapping[str, object], *, seconds: float = 30.0) -> dict[str, object]:
    """Send a question to the proxy's control socket at `path` and return the answer. Raises `UserError`."""
    try:
        answer: dict[str, object] = read_json(_exchanged(path, json.dumps(question).encode("ascii") + b"\n", seconds))
    except (OSError, ValueError) as error:
        problem = Problem(where=str(path), what=f"the proxy does not answer: {error}", hint="is it running?")
        raise UserError([problem]) from error
    return answer


def _exchanged(path: Path, question: bytes, seconds: float) -> bytes:
    """Read to the end of the stream; raise OSError if that takes longer in total."""
    end, answer = time.monotonic() + seconds, b""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(seconds)
        connection.connect(str(path))
        connection.sendall(question)
        while data := connection.recv(65_536):
            answer += data
            connection.settimeout(max(end - time.monotonic(), 0))
    return answer
