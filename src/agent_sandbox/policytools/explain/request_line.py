"""Turn `METHOD URL`, as a user writes it, into the request that a client would send."""

import json
from collections.abc import Sequence
from typing import override

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.file.short_form import NO_SCHEME
from agent_sandbox.policy.http.authority import parse_authority
from agent_sandbox.policy.http.body_size import parse_body_size
from agent_sandbox.policy.http.graphql_body import with_body
from agent_sandbox.policy.http.mcp_body import with_message, with_message_of_head
from agent_sandbox.policy.http.method import NAMEABLE
from agent_sandbox.policy.http.request import DEFAULT_PORTS, Request, parse_request
from agent_sandbox.policy.match.ssh_address import https_address
from agent_sandbox.problems import Problem, UserError

Headers = tuple[tuple[str, str], ...]
MOST_DIGITS = 18
BODYLESS = frozenset({"GET", "DELETE"})


class RequestLine(Struct, frozen=True, kw_only=True):
    """A request as written; `body_size` in bytes, None if not given. `graphql` is a document to send in the body."""

    method: str
    url: str
    headers: Headers = ()
    body_size: int | None = None
    graphql: str | None = None
    # The method of a message to send in the body, and the tool: `tools/call search`.
    mcp: str | None = None

    @override
    def __str__(self) -> str:
        return f"{self.method} {self.url}"


def method_and_url(words: Sequence[str]) -> tuple[str, str]:
    """Return the method and the URL of one or two words; without a method it is GET. Raise UserError for anything else.

    >>> method_and_url(["https://a.test/"]), method_and_url(["post https://a.test/"])
    (('GET', 'https://a.test/'), ('POST', 'https://a.test/'))
    """
    match " ".join(words).split():
        case [url] if url.upper() not in NAMEABLE:
            method = "GET"
        case [method, url]:
            pass
        case _:
            what, hint = "not one request", "write `GET https://host/path`"
            raise UserError([Problem(where=" ".join(words), what=what, hint=hint)])
    if "," in method:
        what, hint = "more than one method", f"explain one at a time: `{method.partition(',')[0].upper()} {url}`"
        raise UserError([Problem(where=method, what=what, hint=hint)])
    return method.upper(), url


def read_request(policy: Policy, line: RequestLine) -> Request:
    """Return the request; raise UserError for an invalid URL, and Ambiguous as the proxy would.

    The policy says for which hosts a path can contain `%2F`.
    """
    scheme, separator, rest = line.url.partition("://")
    if not separator or scheme.lower() not in DEFAULT_PORTS:
        address = https_address(line.url)
        url = f"https://{line.url}" if NO_SCHEME.fullmatch(line.url) else "https://host/path"
        hint = f"git uses https in the sandbox: {address}" if address else f"write it as {url}"
        raise UserError([Problem(where=line.url, what="not an http or https URL", hint=hint)])
    scheme, rest = scheme.lower(), rest.partition("#")[0]
    end = next((index for index, letter in enumerate(rest) if letter in "/?"), len(rest))
    host, port = parse_authority(rest[:end], default_port=DEFAULT_PORTS[scheme])
    request = parse_request(
        scheme=scheme,
        host=host,
        port=port,
        method=line.method,
        target=rest[end:] if rest[end:].startswith("/") else f"/{rest[end:]}",
        headers=line.headers if line.graphql is line.mcp else _as_json(line.headers),
        body_size=line.body_size,
        encoded_slash=policy.takes_encoded_slash(host),
    )
    # Only the proxy knows which secrets are set: assume all.
    request = replace(request, secrets=True)
    if line.graphql is not None:
        return with_body(request, json.dumps({"query": line.graphql}).encode())
    return _with_message(request, line) if policy.asks_messages or line.mcp is not None else request


def _with_message(request: Request, line: RequestLine) -> Request:
    """Return the request with its MCP message, or with that which it is without a body."""
    if line.mcp is not None:
        return with_message(request, _message(line.mcp))
    if line.method not in BODYLESS:
        return request
    return replace(request, message=with_message_of_head(replace(request, body_size=request.body_size or 0)).message)


def _message(text: str) -> bytes:
    """Return the MCP message that a client would send.

    >>> _message("ping")
    b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    """
    method, _, tool = text.partition(" ")
    said = {"jsonrpc": "2.0", **({} if method.startswith("notifications/") else {"id": 1}), "method": method}
    return json.dumps({**said, "params": {"name": tool}} if tool else said).encode()


def _as_json(headers: Headers) -> Headers:
    given = any(name == "content-type" for name, _ in headers)
    return headers if given else (*headers, ("content-type", "application/json"))


def read_header(text: str) -> tuple[str, str]:
    """Return the name and value of `NAME: VALUE`, or raise UserError.

    >>> read_header("Accept: text/html")
    ('accept', 'text/html')
    """
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        hint = "write it as `content-type: application/json`"
        raise UserError([Problem(where=text, what="not a header", hint=hint)])
    return name.strip().lower(), value.strip()


def read_size(text: str) -> int:
    """Return the number of bytes of a size such as `1MiB` or `300`, or raise UserError."""
    try:
        return parse_body_size(int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else text)
    except InvalidValue as invalid:
        raise UserError([Problem(where=text, what="not a body size", hint=invalid.hint)]) from invalid
