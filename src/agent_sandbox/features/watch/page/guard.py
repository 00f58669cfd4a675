"""Reject requests to the page's server that do not come from the page itself, or use another host name.

Every page that the user has open in a browser can send requests to 127.0.0.1, and so can a page of the sandbox that
`agent-sandbox ports` made reachable under another port of 127.0.0.1.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_sandbox.features.watch.page.sessions import Session, Sessions

ADDRESS = "127.0.0.1"
KEY = b"agent-sandbox-key"
METHODS = frozenset({"GET", "POST"})
# A browser may load these without a session: they are files of the package, the same for everyone.
PAGE = "/"
BEGIN = "/api/session"
PROTECTED = "/api/"
# How a browser calls requests that no other site has caused: typed or from the command line, or by the page itself.
TYPED, OWN = "none", "same-origin"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = (
    ("content-security-policy", POLICY),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("cache-control", "no-store"),
)

type Headers = Sequence[tuple[bytes, bytes]]


class Refusal(NamedTuple):
    """A status, and why."""

    status: HTTPStatus
    why: str


class Guard:
    """Rejects all other requests, and adds the security headers to responses."""

    def __init__(self, app: ASGIApp, *, port: int, sessions: Sessions) -> None:
        self._app, self._port, self._sessions = app, port, sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS]
                message["headers"] = [*message.get("headers", ()), *own]
            await send(message)

        if scope["type"] != "http":
            return
        refused = self.refusal(scope["method"], scope["path"], scope["headers"])
        if refused is None:
            await self._app(scope, receive, with_headers)
            return
        length = (b"content-length", str(len(refused.why)).encode())
        start = [(b"content-type", b"text/plain; charset=utf-8"), length, (b"connection", b"close")]
        await with_headers({"type": "http.response.start", "status": refused.status, "headers": start})
        await send({"type": "http.response.body", "body": refused.why.encode("ascii")})

    def refusal(self, method: str, path: str, headers: Headers) -> Refusal | None:
        """Return why a request is refused, None if it is not."""
        authority = f"{ADDRESS}:{self._port}"
        if _all(headers, b"host") != [authority]:
            return Refusal(HTTPStatus.MISDIRECTED_REQUEST, f"this server answers only at http://{authority}/")
        if method not in METHODS:
            return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and POST")
        origins = _all(headers, b"origin")
        if origins != [f"http://{authority}"] and (origins or method == "POST"):
            return Refusal(HTTPStatus.FORBIDDEN, "a request from another origin")
        sites = _all(headers, b"sec-fetch-site")
        known = (OWN, TYPED) if path == PAGE else (OWN,)
        if sites and (len(sites) > 1 or sites[0] not in known):
            return Refusal(HTTPStatus.FORBIDDEN, "another page sent this request: type or paste the address instead")
        if path.startswith(PROTECTED) and path != BEGIN and not self._sessions.has(self._session(headers)):
            return Refusal(HTTPStatus.UNAUTHORIZED, "no session: press Enter where agent-sandbox ui runs")
        return None

    def _session(self, headers: Headers) -> Session:
        cookies = _cookies(_all(headers, b"cookie"))
        keys = _all(headers, KEY)
        return Session(cookie=cookies.get(cookie_name(self._port), ""), key=keys[0] if len(keys) == 1 else "")


def cookie_name(port: int) -> str:
    """Return the name of the session's cookie: one for each port, because all ports of an address share cookies."""
    return f"agent-sandbox-ui-{port}"


def _all(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1") for found, value in headers if found == name]


def _cookies(texts: Sequence[str]) -> Mapping[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie("; ".join(texts)).items()}
    except CookieError:
        return {}
