"""THE door: every request is normalised here, once, before anything else looks at it.

Decide, dial, inject and log use the one value that comes out. What cannot be read in exactly one way is Ambiguous.
"""

import re
from typing import Literal, NamedTuple

from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.bounds import check_fields, check_target
from agent_sandbox.policy.http.graphql_operation import Operation
from agent_sandbox.policy.http.headers import Headers
from agent_sandbox.policy.http.host import canonical_host
from agent_sandbox.policy.http.method import canonical_method
from agent_sandbox.policy.http.path import canonical_path
from agent_sandbox.policy.http.query import other_method
from agent_sandbox.policy.text import safe_repr

Scheme = Literal["http", "https"]
SCHEMES: dict[str, Scheme] = {"http": "http", "https": "https"}
DEFAULT_PORTS: dict[str, int] = {"http": 80, "https": 443}
USUAL_PORTS = frozenset(DEFAULT_PORTS.values())
NOT_IN_A_QUERY = re.compile(r"[^\x21-\x7e]|#|%00")


class Request(NamedTuple):
    """A request in canonical form. Only `parse_request` makes one of foreign bytes.

    No dataclass: one is made for each request, and a frozen one takes four times as long to make.
    """

    scheme: Scheme
    host: str
    port: int
    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...] = ()
    # Bytes; None where the head does not tell (chunked, or HTTP/2 without a length), 0 where there is no body.
    body_size: int | None = None
    # What a GraphQL body asks for; None where no body has been read, which is the usual case.
    operation: Operation | None = None
    # Whether secrets can be put in: a rule that wants one put in takes no other request.
    secrets: bool = False

    @property
    def target(self) -> str:
        """The path and the query: what was decided, and what is forwarded."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def url(self) -> str:
        """The whole address, for people and logs."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.target}"


def parse_request(  # noqa: PLR0913 - a request is made of these
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

    `target` is the origin form (`/path?query`), `body_size` what the head tells of the body. `encoded_slash` lets `%2F`
    stand in the path, for hosts of which
    `Policy.takes_encoded_slash` says so.
    """
    if scheme not in SCHEMES:
        raise Ambiguous(f"{safe_repr(scheme)} is no scheme of HTTP")
    if not 0 < port < 65536:
        raise Ambiguous(f"{port} is no port")
    check_target(target)
    if headers:
        check_fields(headers)
        headers = Headers(headers)
    path, _, query = target.partition("?")
    if query and NOT_IN_A_QUERY.search(query):
        raise Ambiguous("the query holds a character that no URL holds, a NUL, or a fragment")
    if query and (named := other_method(query, method)):
        raise Ambiguous(f"the query names another method, {named}, which some servers take for the request's")
    return Request(  # in the order of its parts: by their names it would take twice as long
        SCHEMES[scheme],
        canonical_host(host),
        port,
        canonical_method(method),
        canonical_path(path or "/", encoded_slash=encoded_slash),
        query,
        headers,
        body_size,
    )
