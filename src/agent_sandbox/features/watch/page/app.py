"""The requests that the page can send: begin a session, follow the news, answer.

Nothing here trusts that the page shows what is so: an answer repeats what it is about, and is refused if that is no
longer open.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Protocol

from msgspec import Struct
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agent_sandbox.bounded_json import read_json
from agent_sandbox.features.policy.layer_rule import RuleLayer
from agent_sandbox.features.ports.forward import Forward
from agent_sandbox.features.proxy.reports import Question
from agent_sandbox.features.watch.page.feed import Cursor, Feed, Page
from agent_sandbox.features.watch.page.guard import BEGIN, PAGE, Guard, cookie_name
from agent_sandbox.features.watch.page.sessions import Sessions
from agent_sandbox.features.watch.page.shown import (
    MOST_LINES,
    change_shown,
    hosts_shown,
    news_shown,
    policy_shown,
    request_shown,
    text_shown,
)
from agent_sandbox.features.watch.page.today import Today
from agent_sandbox.features.watch.watching.connection import SCOPES
from agent_sandbox.features.watch.watching.rules import Rules
from agent_sandbox.features.watch.watching.stack_ports import StackPorts
from agent_sandbox.problems import UserError

LARGEST = 16 << 10  # of a request's body
MOST_PAGES = 8
PAUSE_SECONDS = 0.1  # between two pieces of news
ALIVE_SECONDS = 15.0
ASSETS = files("agent_sandbox.features.watch.page") / "assets"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
GONE = "this request no longer waits: the client left, it was answered, or it timed out"


class Answers(Protocol):
    """The part of a connection to the proxy that the page uses."""

    def answer(self, number: int, scope: str, *, seconds: int | None = None) -> None:
        """Send an answer."""

    def answer_for(self, question: Question, word: str) -> None:
        """Answer with one of the words of `SCOPES`."""


class RequestError(Exception):
    """A request that cannot be done, with the status and the reason for the page."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class StackApi(Struct, frozen=True, kw_only=True):
    """The services of one stack that the page's API uses: answers, rules, today's records and ports."""

    answers: Answers
    ports: StackPorts
    rules: Rules
    today: Today


class Server:
    """The page of some stacks. `add` may be called from another thread."""

    def __init__(self, *, feed: Feed, sessions: Sessions) -> None:
        self._feed, self._sessions = feed, sessions
        self._apis: dict[str, StackApi] = {}
        self._pages = 0

    def add(self, name: str, api: StackApi) -> None:
        """Show one more stack."""
        self._apis = {**self._apis, name: api}
        self._feed.add(name)

    def app(self, port: int) -> Guard:
        """Return the application for this port."""
        routes = [
            *(Route(path, _asset(name)) for path, name in _assets().items()),
            Route(BEGIN, _post(self._begin, port), methods=["POST"]),
            Route("/api/news", self._news, methods=["GET"]),
            Route("/api/hosts", self._get(lambda today: hosts_shown(today.hosts())), methods=["GET"]),
            Route("/api/policy", self._get(lambda today: policy_shown(today.policy())), methods=["GET"]),
            Route("/api/answer", _post(self._answer), methods=["POST"]),
            Route("/api/end", _post(self._end), methods=["POST"]),
            Route("/api/port", _post(self._port), methods=["POST"]),
            Route("/api/rule", _post(self._rule), methods=["POST"]),
            Route("/api/write", _post(self._write), methods=["POST"]),
        ]
        return Guard(Starlette(routes=routes), port=port, sessions=self._sessions)

    async def _begin(self, said: Mapping[str, Any], port: int) -> Response:
        session = self._sessions.begin(_text(said, "token"))
        if session is None:
            why = "this address was used or has expired: press Enter where agent-sandbox ui runs"
            raise RequestError(HTTPStatus.FORBIDDEN, why)
        response = JSONResponse({"key": session.key})
        response.set_cookie(cookie_name(port), session.cookie, path="/", httponly=True, samesite="strict")
        return response

    async def _news(self, request: Request) -> Response:
        if self._pages >= MOST_PAGES:
            why = f"{MOST_PAGES} pages are already open: close one"
            return _refused(RequestError(HTTPStatus.SERVICE_UNAVAILABLE, why))
        after = request.query_params.get("after", "")
        cursor = Cursor(record=int(after) if after.isdecimal() and len(after) < 16 else 0)
        return StreamingResponse(self._stream(cursor), media_type="text/event-stream")

    async def _stream(self, cursor: Cursor) -> AsyncIterator[str]:
        page = Page()
        self._feed.join(page)
        self._pages += 1
        try:
            while not self._feed.over:
                news = news_shown(self._feed.after(cursor))
                yield f"data: {json.dumps({**news, 'cursor': cursor.record})}\n\n"
                await asyncio.sleep(PAUSE_SECONDS)
                if not self._feed.has_more(cursor):
                    await page.news(ALIVE_SECONDS)
        finally:
            self._pages -= 1
            self._feed.leave(page)

    async def _answer(self, said: Mapping[str, Any]) -> Response:
        question, word = self._question(said), _text(said, "word")
        if word not in SCOPES:
            raise RequestError(HTTPStatus.BAD_REQUEST, "no such answer")
        answers = self._api(said).answers
        await _done(lambda: answers.answer_for(question, word))
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _end(self, said: Mapping[str, Any]) -> Response:
        number, answers = _number(said, "id"), self._api(said).answers
        if all(grant.id != number for grant in self._feed.state(_text(said, "stack")).grants):
            raise RequestError(HTTPStatus.CONFLICT, "this grant has ended")
        await _done(lambda: answers.answer(number, "end"))
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _port(self, said: Mapping[str, Any]) -> Response:
        """Open a port that the page shows, or close it if it was shown as open on this one of this machine."""
        port, here, ports = _number(said, "port"), _number(said, "here"), self._api(said).ports
        shown = self._feed.inside(_text(said, "stack")).ports
        if not any((one.port, one.here) == (port, here) for one in shown):
            raise RequestError(HTTPStatus.CONFLICT, "this port has just changed")
        await _done(lambda: ports.close(here) if here else ports.open(Forward(here=port, inside=port)))
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _rule(self, said: Mapping[str, Any]) -> Response:
        """Plan a change for a question, or for a decision that the feed still has."""
        if "id" in said:
            question, layer, rules = self._question(said), _layer(said), self._api(said).rules
            return JSONResponse(change_shown(await _done(lambda: rules.of_question(question, layer))))
        found = self._feed.decision(_number(said, "record"))
        if found is None or found.stack != _text(said, "stack"):
            why = "the page no longer has this request: use agent-sandbox policy suggest"
            raise RequestError(HTTPStatus.CONFLICT, why)
        rules = self._api(said).rules
        return JSONResponse(change_shown(await _done(lambda: rules.of_record(found.record))))

    async def _write(self, said: Mapping[str, Any]) -> Response:
        rules = self._api(said).rules
        printed = await _done(lambda: rules.write(_text(said, "change")))
        return JSONResponse({"printed": [text_shown(line) for line in printed.split("\n")[:MOST_LINES]]})

    def _question(self, said: Mapping[str, Any]) -> Question:
        """Return the question that an answer is about: its stack, its number, and what the page showed with it."""
        number, shown = _number(said, "id"), _text(said, "request")
        found = next((one for one in self._feed.state(_text(said, "stack")).questions if one.id == number), None)
        if found is None or request_shown(found) != shown:
            raise RequestError(HTTPStatus.CONFLICT, GONE)
        return found

    def _api(self, said: Mapping[str, Any]) -> StackApi:
        api = self._apis.get(_text(said, "stack"))
        if api is None:
            raise RequestError(HTTPStatus.NOT_FOUND, "no such stack on this page")
        return api

    def _get(self, read: Callable[[Today], Mapping[str, Any]]) -> "Handler":
        """Return an endpoint that responds with what `read` returns about a stack; `read` runs in a thread."""

        async def endpoint(request: Request) -> Response:
            try:
                today = self._api(request.query_params).today
                return JSONResponse(await _done(lambda: read(today)))
            except RequestError as error:
                return _refused(error)

        return endpoint


type Handler = Callable[[Request], Awaitable[Response]]


def _post[**More](act: Callable[..., Awaitable[Response]], *more: object) -> Handler:
    """Return an endpoint that reads a small JSON object, and reports what is wrong as text."""

    async def endpoint(request: Request) -> Response:
        try:
            return await act(await _object(request), *more)
        except RequestError as error:
            return _refused(error)

    return endpoint


async def _object(request: Request) -> Mapping[str, Any]:
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > LARGEST:
                raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the request is too large")
        found = read_json(body.decode())
    except (ValueError, ClientDisconnect) as error:
        raise RequestError(HTTPStatus.BAD_REQUEST, "not JSON") from error
    if not isinstance(found, dict):
        raise RequestError(HTTPStatus.BAD_REQUEST, "not a JSON object")
    return found


async def _done[T](act: Callable[[], T]) -> T:
    """Run a blocking function in a thread; its problems become responses to the page."""
    try:
        return await run_in_threadpool(act)
    except UserError as error:
        why = "; ".join(map(str, error.problems))
        raise RequestError(HTTPStatus.CONFLICT, text_shown(why, LARGEST)) from error


def _refused(error: RequestError) -> Response:
    return JSONResponse({"error": error.why}, status_code=error.status)


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    return value if isinstance(value, str) else ""


def _layer(said: Mapping[str, Any]) -> RuleLayer:
    try:
        return RuleLayer(_text(said, "layer") or RuleLayer.PROJECT)
    except ValueError as error:
        raise RequestError(HTTPStatus.BAD_REQUEST, "no such layer") from error


def _number(said: Mapping[str, Any], name: str) -> int:
    value = said.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _assets() -> Mapping[str, str]:
    names = sorted(one.name for one in ASSETS.iterdir())
    return {PAGE if name == "page.html" else f"/{name}": name for name in names}


def _asset(name: str) -> Handler:
    content, kind = (ASSETS / name).read_bytes(), TYPES[name[name.rindex(".") :]]

    async def endpoint(_: Request) -> Response:
        return Response(content, media_type=kind)

    return endpoint
