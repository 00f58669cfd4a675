"""The grammar of HTTP/1 heads: requests, responses, and an upstream proxy's answer to CONNECT.

The input comes from a hostile peer, so the grammar is strict: it corrects nothing, and rejects whatever two programs
could read differently. RFC 9112 allows an identical Content-Length to be repeated, and folded lines in responses to be
joined. Here, both are errors.
"""

import re
from enum import Enum

from msgspec import Struct

from agent_sandbox.policy import Ambiguous, parse_authority
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.message import FRAMING, misspelt_framing

END = b"\r\n\r\n"
TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
REQUEST_LINE = re.compile(rb"(" + TOKEN + rb") ([\x21-\x7e]+) HTTP/1\.([01])")
# Some servers send neither a reason nor the space before it.
STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?")
STATUS_LINE_START = re.compile(rb"HTTP/1\.[01] [1-9][0-9]{2}[ \r\n]")
SAMPLE = b"HTTP/1.1 200 "
# Possessive: a line of spaces that ends in a control character would be tried from every space.
FIELD = re.compile(
    rb"(" + TOKEN + rb"):[ \t]*+([\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)? *"
)
LENGTH = re.compile(rb"0|[1-9][0-9]{0,17}")
METHOD_BYTES = 32
SWITCHING, NO_CONTENT, NOT_MODIFIED = 101, 204, 304
ABSOLUTE = re.compile(r"http://(?P<authority>[^/?#@]+)(?P<path>[/?].*)?", re.IGNORECASE)
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
# A client that has a second proxy configured sends it such a request through the first one.
ANOTHER_PROXY = (
    "{}, as for another proxy, but the sandbox's proxy is the only one: "
    "unset the variable (such as http_proxy) or the option that names the other"
)

Fields = tuple[tuple[bytes, bytes], ...]


def has_body(method: str, status: int) -> bool:
    """Return whether a response to `method` with this status has a body, which may be empty.

    >>> [has_body(method, status) for method, status in (("GET", 200), ("head", 200), ("GET", 304), ("GET", 101))]
    [True, False, False, False]
    """
    return status >= 200 and status not in (NO_CONTENT, NOT_MODIFIED) and method.upper() != "HEAD"


class BadHeadError(ValueError):
    """A head is rejected; `status` is the status of the response to a request."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class BodyEnd(Enum):
    """How the end of a body without a length is found."""

    CHUNKED = "the last chunk"
    CLOSE = "the connection closes"


Body = int | BodyEnd


class RequestHead(Struct, frozen=True):
    """A valid request line with its header fields. `body` is the length of the body in bytes, or `CHUNKED`."""

    method: str
    target: str
    version: str
    fields: Fields
    host: str | None
    body: Body


class ResponseHead(Struct, frozen=True):
    """A valid status line with its header fields."""

    version: str
    status: int
    reason: bytes
    fields: Fields

    @property
    def interim(self) -> bool:
        """Whether another response follows, such as after `103 Early Hints`."""
        return self.status < 200 and self.status != SWITCHING

    def has_body(self, method: str) -> bool:
        """Return whether the response to `method` has a body, which may be empty."""
        return has_body(method, self.status)

    def body(self, method: str) -> Body:
        """Return the body's length or how it ends, if this is the response to `method`. Raises `BadHeadError`."""
        declared = _body(self.fields, _names(self.fields), self.version, absent=BodyEnd.CLOSE)
        return declared if self.has_body(method) else 0

    @property
    def forwarded(self) -> Fields:
        """The fields without those that declare a body although the status rules one out.

        Clients and servers disagree on whether such a body follows. Only the Content-Length of a 304 is legitimate.
        """
        if has_body("", self.status):
            return self.fields
        names = (b"transfer-encoding",) if self.status == NOT_MODIFIED else (b"transfer-encoding", b"content-length")
        return tuple(field for field in self.fields if field[0].lower() not in names)


def find_request_end(data: bytes, limits: Limits) -> int:
    r"""Return the length of the head, 0 while it is incomplete. Raises `BadHeadError`.

    Rejects a malformed head as early as possible, so the client need not wait for a timeout.

    >>> find_request_end(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nbody", Limits())
    27
    """
    end = data.find(END, 0, limits.head_bytes + len(END))
    if end >= 0:
        return end + len(END)
    if len(data) > limits.head_bytes:
        raise BadHeadError(f"the request head is larger than {limits.head_bytes} bytes", 431)
    if data and not re.match(TOKEN, data):
        raise BadHeadError("the request does not begin with a method")
    _check_breaks(data, "request", limits.head_fields)
    first = data.find(b"\r\n")
    if first >= 0:
        _request_line(data[:first])
    return 0


def parse_request(data: bytes, limits: Limits) -> RequestHead:
    r"""Parse `data`, which ends with the empty line. Raises `BadHeadError`.

    >>> parse_request(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n", Limits()).target
    '/x'
    """
    _check_breaks(data[:-2], "request", limits.head_fields)
    first, fields = _lines(data)
    line = _request_line(first)
    version, names = f"HTTP/1.{line[3].decode()}", _names(fields)
    return RequestHead(
        method=line[1].decode(),
        target=line[2].decode(),
        version=version,
        fields=fields,
        host=_host(fields, names),
        body=_body(fields, names, version, absent=0),
    )


def check_response_start(data: bytes, limits: Limits) -> None:
    """Raise `BadHeadError` if `data` cannot be the start of a response, so that nothing waits for the rest of it."""
    if len(data) > limits.response_head_bytes:
        raise BadHeadError(f"its head is larger than {limits.response_head_bytes} bytes")
    begun = data[: len(SAMPLE)]
    if not STATUS_LINE_START.match(begun + SAMPLE[len(begun) :]):
        raise BadHeadError("it is not HTTP/1")
    _check_breaks(data, "response", limits.response_head_fields)


def parse_response(data: bytes, limits: Limits) -> ResponseHead:
    r"""Parse `data`, which ends with the empty line. Raises `BadHeadError`.

    >>> parse_response(b"HTTP/1.1 404 Not Found\r\n\r\n", Limits()).status
    404
    """
    check_response_start(data[:-2], limits)
    first, fields = _lines(data)
    line = STATUS_LINE.fullmatch(first)
    if line is None:
        raise BadHeadError("the status line is not `HTTP/1.1 status reason`")
    return ResponseHead(version=f"HTTP/1.{line[1].decode()}", status=int(line[2]), reason=line[3] or b"", fields=fields)


def _lines(data: bytes) -> tuple[bytes, Fields]:
    first, *lines = data[: -len(END)].split(b"\r\n")
    fields = tuple(map(_field, lines))
    if why := misspelt_framing(fields):
        raise BadHeadError(why)
    return first, fields


def _check_breaks(data: bytes, what: str, limit: int) -> None:
    # Checked again for each packet of an unfinished head: `re` takes a millisecond each time, `count` a tenth of that.
    breaks = data.count(b"\r\n")
    if not breaks == data.count(b"\n") == data.count(b"\r") - data.endswith(b"\r"):
        raise BadHeadError(f"a bare CR or LF in the {what} head")
    if breaks > limit + 1:
        raise BadHeadError(f"more than {limit} header fields", 431)


def _request_line(first: bytes) -> re.Match[bytes]:
    line = REQUEST_LINE.fullmatch(first)
    if line is None:
        raise BadHeadError("the request line is not `METHOD target HTTP/1.1`")
    if len(line[1]) > METHOD_BYTES:
        raise BadHeadError("the method is too long")
    return line


def _field(line: bytes) -> tuple[bytes, bytes]:
    found = FIELD.fullmatch(line) or FIELD.fullmatch(line.rstrip(b" \t"))
    if found is None:
        folded = line[:1] in (b" ", b"\t")
        raise BadHeadError("a folded header line" if folded else "a malformed header line")
    # Node keeps a tab behind a value: to it, `chunked\t` is an unknown coding, and the body ends elsewhere.
    if found.end() < len(line) and found[1].lower() in FRAMING:
        raise BadHeadError("a tab after the value of Content-Length or Transfer-Encoding")
    return found[1], found[2] or b""


def _names(fields: Fields) -> list[bytes]:
    return [name.lower() for name, _ in fields]


def _host(fields: Fields, names: list[bytes]) -> str | None:
    count = names.count(b"host")
    if not count:
        return None
    if count > 1:
        raise BadHeadError("more than one Host header")
    host = fields[names.index(b"host")][1]
    if not host.isascii():
        raise BadHeadError("the Host header is not ASCII")
    return host.decode()


def _body(fields: Fields, names: list[bytes], version: str, *, absent: Body) -> Body:
    lengths, codings = names.count(b"content-length"), names.count(b"transfer-encoding")
    if lengths and codings:
        raise BadHeadError("both Content-Length and Transfer-Encoding")
    if lengths > 1 or codings > 1:
        raise BadHeadError("more than one Content-Length or Transfer-Encoding")
    if codings:
        coding = fields[names.index(b"transfer-encoding")][1]
        if version != "HTTP/1.1" or coding.lower() != b"chunked":
            raise BadHeadError("a Transfer-Encoding other than `chunked`")
        return BodyEnd.CHUNKED
    if not lengths:
        return absent
    length = fields[names.index(b"content-length")][1]
    if not LENGTH.fullmatch(length):
        raise BadHeadError("the Content-Length is not a plain number")
    return int(length)


class Target(Struct, frozen=True, kw_only=True):
    """The path, and outside of a tunnel also host and port."""

    host: str = ""
    port: int = 0
    path: str


def split_target(head: RequestHead, tunnel: Tunnel) -> Target:
    """Parse the target of `head`. Raises `BadHeadError`."""
    if head.method == "CONNECT" and tunnel.carries is not Carries.PROXY:
        raise BadHeadError(ANOTHER_PROXY.format("CONNECT"))
    if head.method == "CONNECT":
        raise BadHeadError("CONNECT is valid only as the first request to the proxy")
    if head.host is None:
        raise BadHeadError("no Host header")
    if tunnel.carries is Carries.PROXY:
        return _absolute(head)
    if head.target.startswith("/"):
        return Target(path=head.target)
    if SCHEME.match(head.target):
        raise BadHeadError(ANOTHER_PROXY.format("a full URL"))
    raise BadHeadError(f"the request target {head.target[:40]!r} is not a path")


def _absolute(head: RequestHead) -> Target:
    found = ABSOLUTE.fullmatch(head.target)
    if found is None and head.target.startswith("/"):
        raise BadHeadError("this is a proxy: send CONNECT, or a request with a full http:// URL")
    if found is None:
        raise BadHeadError("the proxy accepts only http:// URLs here; use CONNECT for https")
    try:
        host, port = parse_authority(found["authority"], default_port=80)
    except Ambiguous as doubt:
        raise BadHeadError(f"ambiguous: {doubt}") from doubt
    path = found["path"] or "/"
    return Target(host=host, port=port, path=path if path.startswith("/") else f"/{path}")
