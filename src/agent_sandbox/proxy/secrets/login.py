"""Logins: secrets that expire, and whose clients ask the server for a new token.

The client in the sandbox has placeholders for its tokens. The proxy answers its refresh requests: with the same
placeholders while the current token is valid, else with an error. Only the host machine refreshes (ADR 42).
"""

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from agent_sandbox.bounded_json import NotJsonError, read_json
from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.host import canonical_host
from agent_sandbox.policy.http.request import Request
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.secrets.placeholder import Placeholders
from agent_sandbox.proxy.secrets.store import (
    NotGivenError,
    Secret,
    login_names,
    login_of,
    put_sourced,
    put_unresolved,
    read_secret,
    uptime,
)

ACCESS, REFRESH, IDENTITY = ROLES = ("access", "refresh", "id")
SECONDS = "{seconds}"
GRANT = "refresh_token"
# The lifetime that clients get if the expiry of a token is not known.
USUAL_SECONDS = 3600
# How a placeholder begins: safe in JSON, in a form and in a header. A JWT's header and claims are part of it.
BEGINNING = re.compile(r"[A-Za-z0-9._/-]{0,8192}", re.ASCII)
PATH = re.compile(r"/[A-Za-z0-9._/-]{1,200}", re.ASCII)
FIELD = re.compile(r"[a-z_]{1,40}", re.ASCII)
TEXT = re.compile(r"[\x20-\x7e]{0,1000}", re.ASCII)
MOST_ENDPOINTS, MOST_FIELDS = 4, 16
# A directory that changed this recently may change again without a new timestamp.
SETTLED_SECONDS = 1.0
BODILESS = frozenset({"GET", "HEAD"})


class Login(Struct, frozen=True, kw_only=True):
    """How the client of a login asks for a new token, and how the proxy answers.

    `endpoints` are hosts with paths. `begins` says how the placeholder for each role begins. A value of `answer` is
    fixed, or `{access}`, `{refresh}`, `{id}` or `{seconds}`.
    """

    name: str
    endpoints: tuple[tuple[str, str], ...]
    begins: Mapping[str, str]
    answer: Mapping[str, str]


class InvalidLoginError(ValueError):
    """Why a login is not valid."""


def parse_login(name: str, said: Any) -> Login:  # noqa: ANN401 - whatever the input holds
    """Return a login, or raise InvalidLoginError."""
    match said:
        case {"endpoints": [*urls], "begins": dict(begins), "answer": dict(answer)}:
            if not (1 <= len(urls) <= MOST_ENDPOINTS and all(map(_is_beginning, begins.items())) and ACCESS in begins):
                raise InvalidLoginError("`endpoints` or `begins` is not valid")
            if len(answer) > MOST_FIELDS or not all(map(_is_field, answer.items())):
                raise InvalidLoginError("`answer` is not valid")
            endpoints = tuple(map(_endpoint, urls))
            return Login(name=name, endpoints=endpoints, begins=dict(begins), answer=dict(answer))
    raise InvalidLoginError("`endpoints`, `begins` or `answer` is missing")


def _is_beginning(pair: tuple[Any, Any]) -> bool:
    role, text = pair
    return role in ROLES and isinstance(text, str) and BEGINNING.fullmatch(text) is not None


def _is_field(pair: tuple[Any, Any]) -> bool:
    name, text = pair
    return FIELD.fullmatch(str(name)) is not None and isinstance(text, str) and TEXT.fullmatch(text) is not None


def _endpoint(url: Any) -> tuple[str, str]:  # noqa: ANN401 - as above
    parts = urlsplit(str(url))
    try:
        host = canonical_host(parts.netloc)
    except Ambiguous as doubt:
        raise InvalidLoginError(str(doubt)) from doubt
    if parts.scheme != "https" or not PATH.fullmatch(parts.path) or parts.query or parts.fragment:
        raise InvalidLoginError("an endpoint is not `https://HOST/PATH`")
    return host, parts.path


def put_login(folder: Path, name: str, hosts: list[str], data: bytes) -> Login:
    """Store a login: its token in memory, the rest in the volume. Raises UserError.

    Without a token, requests that need one fail until there is one.
    """
    try:
        said = read_json(data)
        login, lifetime = parse_login(name, said), _lifetime(said.get("lifetime"))
    except (NotJsonError, InvalidLoginError) as error:
        raise UserError([Problem(where="", what=f"not a login: {error}")]) from error
    kept = {key: said[key] for key in ("endpoints", "begins", "answer")}
    value = said.get("value")
    if isinstance(value, str):
        until = None if lifetime is None else uptime() + lifetime
        put_sourced(folder, name, hosts, value.encode("utf-8", "replace"), source="login", until=until, login=kept)
    else:
        put_unresolved(folder, name, hosts, login=kept)
    return login


def _lifetime(said: object) -> float | None:
    if said is None or (isinstance(said, int | float) and not isinstance(said, bool)):
        return said
    raise InvalidLoginError("`lifetime` is not a number")


def placeholders_of(login: Login, placeholders: Placeholders) -> dict[str, str]:
    """Return the placeholders of a login, by role."""
    return {role: begin + _ending(login, role, placeholders) for role, begin in login.begins.items()}


def _ending(login: Login, role: str, placeholders: Placeholders) -> str:
    # The one that is replaced in headers is that of the secret; no secret has a colon in its name.
    return placeholders.ending(login.name if role == ACCESS else f"{login.name}:{role}")


class RefusedRefreshError(NotGivenError):
    """Why a refresh request is not answered: there is no valid token now, or it has a placeholder."""


class Refresher:
    """Answers the refresh requests of the logins in `folder`."""

    def __init__(self, folder: Path | None, placeholders: Placeholders | None = None) -> None:
        self._folder = folder
        self._placeholders = placeholders or Placeholders(b"")
        self._seen: object = None
        self._logins: tuple[Login, ...] = ()
        self._endpoints: frozenset[tuple[str, str]] = frozenset()

    def reads(self, request: Request) -> bool:
        """Return whether the body of a request has to be read, because it may be a refresh request."""
        return (
            request.method not in BODILESS
            and (request.scheme, request.port) == ("https", 443)
            and (request.host, request.path) in self._current()
        )

    def answer(self, request: Request, body: bytes) -> Mapping[str, object] | None:
        """Return the JSON object that answers a refresh request with a placeholder, or raise RefusedRefreshError.

        None if the request has no placeholder: it is the client's own sign-in.
        """
        if any(name.lower() == "content-encoding" for name, _ in request.headers):
            raise RefusedRefreshError("the proxy cannot read an encoded body here", "send it without Content-Encoding")
        said, texts = _parsed(body)
        if not any(map(self._placeholders.has, (body.decode("latin-1"), *texts))):
            return None
        token = said.get("refresh_token", "")
        for login in self._logins:
            is_its_own = token.endswith(_ending(login, REFRESH, self._placeholders))
            if is_its_own and said.get("grant_type") == GRANT and (request.host, request.path) in login.endpoints:
                return self._answered(login)
        why = "the body has a placeholder, which the proxy accepts only as the `refresh_token` of a refresh request"
        raise RefusedRefreshError(why, "agent-sandbox secret list")

    def _answered(self, login: Login) -> Mapping[str, object]:
        secret = read_secret(self._folder, login.name) if self._folder else None
        if not isinstance(secret, Secret):
            why = f"secret {login.name} has no value now: {secret.why if secret else 'it was removed'}"
            raise RefusedRefreshError(why, "agent-sandbox secret sync", fault=True)
        tokens = {f"{{{role}}}": text for role, text in placeholders_of(login, self._placeholders).items()}
        left = USUAL_SECONDS if secret.until is None else int(secret.until - uptime())
        return {key: left if text == SECONDS else tokens.get(text, text) for key, text in login.answer.items()}

    def _current(self) -> frozenset[tuple[str, str]]:
        """Return the endpoints of all logins. The directory is read only if it has changed."""
        if self._folder is None:
            return self._endpoints
        try:
            changed = self._folder.stat().st_mtime_ns
        except FileNotFoundError:
            changed = 0
        if changed != self._seen:
            self._logins = tuple(_stored(self._folder))
            self._endpoints = frozenset(place for one in self._logins for place in one.endpoints)
            self._seen = changed if time.time_ns() - changed > SETTLED_SECONDS * 1e9 else None
        return self._endpoints


def _stored(folder: Path) -> Iterator[Login]:
    for name in login_names(folder):
        try:
            yield parse_login(name, login_of(folder, name))
        except InvalidLoginError:
            continue


def _parsed(body: bytes) -> tuple[Mapping[str, str], list[str]]:
    """Return the fields of a body, JSON or a form, and all of its texts."""
    try:
        content = read_json(body)
    except NotJsonError:
        content = dict(parse_qsl(body.decode("latin-1"), keep_blank_values=True))
    fields = content if isinstance(content, dict) else {}
    return {name: text for name, text in fields.items() if isinstance(text, str)}, list(_texts(content))


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for one in value:
                yield from _texts(one)
        case dict():
            for name, one in value.items():
                yield from (str(name), *_texts(one))
