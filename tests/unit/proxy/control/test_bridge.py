import io
import json
import os
import socket
import threading
from pathlib import Path

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.proxy.control.bridge import bridge


def test_lines_are_copied_both_ways_until_stdin_ends(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    source, answers = os.pipe()
    heard: list[bytes] = []

    def serve() -> None:
        with listener.accept()[0] as talker, talker.makefile("rb") as lines:
            heard.append(lines.readline())
            talker.sendall(b"a report\n")
            os.write(answers, b"an answer\n")
            heard.append(lines.readline())
            os.close(answers)
            heard.append(lines.readline())

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        serving = threading.Thread(target=serve)
        serving.start()
        target = io.BytesIO()
        bridge(path, {"verb": "subscribe"}, source=source, target=target)
        serving.join()
    os.close(source)
    assert json.loads(heard[0]) == {"verb": "subscribe"}
    assert (heard[1:], target.getvalue()) == ([b"an answer\n", b""], b"a report\n")


def test_ends_when_the_proxy_closes_the_connection(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    source, answers = os.pipe()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            with listener.accept()[0] as talker:
                talker.recv(1_000)

        serving = threading.Thread(target=serve)
        serving.start()
        bridge(path, {"verb": "subscribe"}, source=source, target=io.BytesIO())
        serving.join()
    os.close(source)
    os.close(answers)


def test_reports_a_proxy_that_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"the proxy does not answer: .*; is it running"):
        bridge(tmp_path / "control.sock", {})
