"""The control socket, for status, reload and denials. It is on no network, and not mounted in the agent container."""

import asyncio
import json
import os
import stat
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.net.sockets import in_tasks

Answer = dict[str, object]
Verb = Callable[[Mapping[str, object]], Awaitable[Answer]]
Reply = Callable[[bytes], Awaitable[None]]
# A verb that goes on writing until the connection ends. Each further line on it is the question of another verb.
Stream = Callable[[Mapping[str, object], Reply], Awaitable[None]]
LONGEST_QUESTION = 4_096
PATIENCE_SECONDS = 5.0


async def serve_control(
    path: Path, verbs: Mapping[str, Verb], streams: Mapping[str, Stream] = MappingProxyType({})
) -> asyncio.Server:
    """Listen at `path`, which only this user can access. Raises `UserError`."""
    _make_room(path)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                question = await reader.readline()
            stream = _stream_of(question, streams)
            if stream is not None:
                await _converse(stream, verbs, reader, writer)
                return
            answer = await answer_question(question, verbs)
            writer.write(json.dumps(answer).encode("ascii") + b"\n")
            await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass  # the client is gone or silent, or sent too long a line
        finally:
            writer.close()

    before = os.umask(0o177)
    try:
        return await asyncio.start_unix_server(in_tasks(talk), path, limit=LONGEST_QUESTION)
    except OSError as error:
        problem = Problem(where=str(path), what=f"cannot listen: {error}", hint="choose a shorter --state path")
        raise UserError([problem]) from error
    finally:
        os.umask(before)


def _stream_of(question: bytes, streams: Mapping[str, Stream]) -> Callable[[Reply], Awaitable[None]] | None:
    try:
        asked = read_json(question)
    except NotJsonError:
        return None
    stream = streams.get(str(asked.get("verb"))) if isinstance(asked, dict) else None
    return partial(stream, asked) if stream is not None else None


async def _converse(
    stream: Callable[[Reply], Awaitable[None]],
    verbs: Mapping[str, Verb],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    async def reply(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    streaming = asyncio.ensure_future(stream(reply))
    try:
        while line := await reader.readline():
            answer = await answer_question(line, verbs)
            await reply(json.dumps({"answer": answer}).encode("ascii") + b"\n")
    finally:
        streaming.cancel()
        await asyncio.gather(streaming, return_exceptions=True)


def _make_room(path: Path) -> None:
    """Remove the socket that a killed proxy left behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and stat.S_ISSOCK(path.lstat().st_mode):
        path.unlink()


async def answer_question(question: bytes, verbs: Mapping[str, Verb]) -> Answer:
    """Return the answer to one line; errors are answers with the key `error`."""
    try:
        asked = read_json(question)
    except NotJsonError:
        return {"error": "not one line of JSON"}
    verb = verbs.get(str(asked.get("verb"))) if isinstance(asked, dict) else None
    if verb is None:
        return {"error": f"unknown verb; known: {', '.join(sorted(verbs))}"}
    return await verb(asked)
