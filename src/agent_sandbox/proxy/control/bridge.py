"""Copy lines between stdin, stdout and the control socket: what runs in the container for `agent-sandbox watch`."""

import json
import os
import selectors
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from agent_sandbox.problems import Problem, UserError

CHUNK = 65_536


def bridge(path: Path, question: Mapping[str, object], *, source: int = 0, target: BinaryIO | None = None) -> None:
    """Send `question`, then copy both ways until one side ends. Raises `UserError`."""
    target = target or sys.stdout.buffer
    try:
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(path))
            control.sendall(json.dumps(question).encode("ascii") + b"\n")
            _copy(control, source, target)
    except OSError as error:
        problem = Problem(where=str(path), what=f"the proxy does not answer: {error}", hint="is it running?")
        raise UserError([problem]) from error


def _copy(control: socket.socket, source: int, target: BinaryIO) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        selector.register(source, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is control:
                    data = control.recv(CHUNK)
                    target.write(data)
                    target.flush()
                else:
                    data = os.read(source, CHUNK)
                    control.sendall(data)
                if not data:
                    return
