import asyncio
import json
import socket
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.proxy.control.channel import Reply, answer_question, serve_control


async def echo(question: Mapping[str, object]) -> dict[str, object]:
    return {"asked": dict(question)}


VERBS = {"echo": echo}


async def ask_here(path: Path, data: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(data)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def test_answers_a_command_by_its_verb(tmp_path: Path) -> None:
    path = tmp_path / "run" / "control.sock"
    async with await serve_control(path, VERBS):
        answer = await ask_here(path, b'{"verb": "echo", "x": 1}\n')
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(answer) == {"asked": {"verb": "echo", "x": 1}}


async def test_replaces_the_socket_of_a_killed_proxy(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(path))
    async with await serve_control(path, VERBS):
        assert await ask_here(path, b'{"verb": "echo"}\n')


async def test_does_not_replace_a_file_that_is_not_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    path.write_text("mine")
    with pytest.raises(UserError, match="cannot listen: "):
        await serve_control(path, VERBS)
    assert path.read_text() == "mine"


async def test_sends_no_answer_to_a_line_that_is_too_long(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    async with await serve_control(path, VERBS):
        assert await ask_here(path, b"x" * 100_000) == b""


@pytest.mark.parametrize("question", [b"", b"{", b"\xff", b"[" * 100_000])
async def test_rejects_commands_that_are_not_json(question: bytes) -> None:
    assert await answer_question(question, VERBS) == {"error": "not one line of JSON"}


@pytest.mark.parametrize("question", [b"[]", b"{}", b'{"verb": "fly"}'])
async def test_an_unknown_verb_names_the_known_ones(question: bytes) -> None:
    assert await answer_question(question, VERBS) == {"error": "unknown verb; known: echo"}


async def test_a_stream_goes_on_while_further_lines_are_answered(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    ended = asyncio.Event()

    async def stream(question: Mapping[str, object], reply: Reply) -> None:
        await reply(b'{"asked": %d}\n' % len(question))
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async with await serve_control(path, VERBS, {"follow": stream}):
        said = await ask_here(path, b'{"verb": "follow"}\n{"verb": "echo"}\nx\n')
        await ended.wait()
        assert json.loads(await ask_here(path, b'{"verb": "echo"}\n')) == {"asked": {"verb": "echo"}}
        assert json.loads(await ask_here(path, b"x\n")) == {"error": "not one line of JSON"}
        assert json.loads(await ask_here(path, b"[]\n")) == {"error": "unknown verb; known: echo"}
    assert sorted(map(json.loads, said.splitlines()), key=str) == [
        {"answer": {"asked": {"verb": "echo"}}},
        {"answer": {"error": "not one line of JSON"}},
        {"asked": 1},
    ]
