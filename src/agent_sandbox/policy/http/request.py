"""Normalise a request, once, before anything else reads it.

The policy engine, dialler, injection and audit log all use the resulting value. A request that programs could read
differently raises Ambiguous.
"""

import re
from typing import Literal

from msgspec import Struct

from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.bounds import check_fields, check_target
from agent_sandbox.policy.http.graphql_operation import Operation
from agent_sandbox.policy.http.headers import Headers
from agent_sandbox.policy.http.host import canonical_host
from agent_sandbox.policy.http.mcp_message import McpMessage
from agent_sandbox.policy.http.method import canonical_method
from agent_sandbox.policy.http.path import canonical_path
from agent_sandbox.policy.http.query import other_method
from agent_sandbox.policy.text import safe_repr

Scheme = Literal["http", "https"]
SCHEMES: dict[str, Scheme] = {"http": "http", "https": "https"}
DEFAULT_PORTS: dict[str, int] = {"http": 80, "https": 443}
USUAL_PORTS = frozenset(DEFAULT_PORTS.values())
NOT_IN_A_QUERY = re.compile(r"[^\x21-\x7e]|#|%00")


class Request(Struct, frozen=True):
    """A request in canonical form. Only `parse_request` builds one from untrusted input."""

    scheme: Scheme
    host: str
    port: int
    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...] = ()
    # Bytes; None if the head does not say (chunked, or HTTP/2 without a length), 0 without a body.
    body_size: int | None = None
    # The GraphQL operation in the body; None if no body was read, the usual case.
    operation: Operation | None = None
    # The MCP message in the body, or that a GET or DELETE is; None if nothing was read, the usual case.
    message: McpMessage | None = None
    # Whether secrets can be injected: a rule with an injection matches only such requests.
    secrets: bool = False

    @property
    def target(self) -> str:
        """The path and the query, as decided on and forwarded."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def url(self) -> str:
        """The whole URL, for messages and logs."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.target}"


def parse_request(  # noqa: PLR0913 - the parts of a request
    *,
    scheme: str,
    host: str,
    port: int,
    method: str,
    target: str,
    headers: tuple[tuple[str, str], ...] = (),
    body_size: int | None = None,
    encoded_slash: bool = False,
) -> Request:
    """Return the canonical request, or raise Ambiguous.

    `target` is the origin form (`/path?query`), `body_size` the body's size by the head. `encoded_slash` permits `%2F`
    in the path: pass `Policy.takes_encoded_slash`.
    """
    if scheme not in SCHEMES:
        raise Ambiguous(f"not an HTTP scheme: {safe_repr(scheme)}")
    if not 0 < port < 65536:
        raise Ambiguous(f"not a port: {port}")
    check_target(target)
    if headers:
        check_fields(headers)
        headers = Headers(headers)
    path, _, query = target.partition("?")
    if query and NOT_IN_A_QUERY.search(query):
        raise Ambiguous("the query contains a character that is not allowed in a URL, a NUL, or a fragment")
    if query and (named := other_method(query, method)):
        raise Ambiguous(f"the query names another method, {named}, which some servers would use instead")
    return Request(  # positional arguments: keywords would take twice as long
        SCHEMES[scheme],
        canonical_host(host),
        port,
        canonical_method(method),
        canonical_path(path or "/", encoded_slash=encoded_slash),
        query,
        headers,
        body_size,
    )
