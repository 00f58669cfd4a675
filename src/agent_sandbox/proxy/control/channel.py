"""The control socket: status, reload, denials. No network reaches it, and the sandbox has no mount of it."""

import asyncio
import json
import os
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.problems import Problem, UserError

Answer = dict[str, object]
Verb = Callable[[Mapping[str, object]], Awaitable[Answer]]
LONGEST_QUESTION = 4_096
PATIENCE_SECONDS = 5.0


async def serve_control(path: Path, verbs: Mapping[str, Verb]) -> asyncio.Server:
    """Listen at `path`, for this user alone."""
    _make_room(path)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                question = await reader.readline()
            answer = await answer_question(question, verbs)
            writer.write(json.dumps(answer).encode("ascii") + b"\n")
            await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass  # whoever asked is gone, silent, or sends a line without end
        finally:
            writer.close()

    before = os.umask(0o177)
    try:
        return await asyncio.start_unix_server(talk, path, limit=LONGEST_QUESTION)
    except OSError as error:
        problem = Problem(where=str(path), what=f"cannot listen there: {error}", hint="choose a shorter --state path")
        raise UserError([problem]) from error
    finally:
        os.umask(before)


def _make_room(path: Path) -> None:
    """Take away the socket of a proxy that was killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and stat.S_ISSOCK(path.lstat().st_mode):
        path.unlink()


async def answer_question(question: bytes, verbs: Mapping[str, Verb]) -> Answer:
    """Answer one line."""
    try:
        asked = read_json(question)
    except NotJsonError:
        return {"error": "a question is one line of JSON"}
    verb = verbs.get(str(asked.get("verb"))) if isinstance(asked, dict) else None
    if verb is None:
        return {"error": f"unknown verb; known: {', '.join(sorted(verbs))}"}
    return await verb(asked)


def ask(path: Path, question: Mapping[str, object], *, seconds: float = 30.0) -> Answer:
    """Ask the proxy at `path`, from another process. Raises `UserError`."""
    try:
        return asyncio.run(asyncio.wait_for(_ask(path, question), seconds))
    except (OSError, TimeoutError, ValueError) as error:
        problem = Problem(where=str(path), what=f"the proxy does not answer: {error}", hint="is it running?")
        raise UserError([problem]) from error


async def _ask(path: Path, question: Mapping[str, object]) -> Answer:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        writer.write(json.dumps(question).encode("ascii") + b"\n")
        await writer.drain()
        answer: Answer = read_json(await reader.read())
        return answer
    finally:
        writer.close()
