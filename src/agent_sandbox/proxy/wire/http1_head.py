"""The one HTTP/1 request head parser: what it does not fully understand, it refuses.

Everything here is on bytes that a hostile client wrote. There is no lenient mode, and no repair.
"""

import re
from dataclasses import dataclass

from agent_sandbox.proxy.limits import Limits

END = b"\r\n\r\n"
TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
REQUEST_LINE = re.compile(rb"(" + TOKEN + rb") ([\x21-\x7e]+) HTTP/1\.([01])")
FIELD = re.compile(
    rb"(" + TOKEN + rb"):[ \t]*([\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?[ \t]*"
)
LENGTH = re.compile(rb"0|[1-9][0-9]{0,17}")
METHOD_BYTES = 32


class BadHeadError(ValueError):
    """A head that is refused; `status` is what the client is told."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A request line and its fields, each seen to be well formed.

    `body` is the length that the framing fields promise: a number, or None for chunks.
    """

    method: str
    target: str
    version: str
    fields: tuple[tuple[bytes, bytes], ...]
    host: str | None
    body: int | None


def find_end(data: bytes, limits: Limits) -> int:
    r"""Return where the head ends, or 0 while there is more to come.

    Refuses as early as the bytes allow, so that nobody waits for a time-out to learn of a mistake.

    >>> find_end(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nbody", Limits())
    27
    """
    end = data.find(END, 0, limits.head_bytes + len(END))
    if end >= 0:
        return end + len(END)
    if len(data) > limits.head_bytes:
        raise BadHeadError(f"the request head is larger than {limits.head_bytes} bytes", 431)
    if data and not re.match(TOKEN, data):
        raise BadHeadError("the request does not begin with a method")
    _check_breaks(data, limits)
    first = data.find(b"\r\n")
    if first >= 0:
        _request_line(data[:first])
    return 0


def parse_head(data: bytes, limits: Limits) -> Head:
    r"""Parse `data`, which ends with the empty line. Raises `BadHeadError`.

    >>> parse_head(b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n", Limits()).target
    '/x'
    """
    _check_breaks(data[:-2], limits)
    first, *lines = data[: -len(END)].split(b"\r\n")
    line = _request_line(first)
    fields = tuple(map(_field, lines))
    version = f"HTTP/1.{line[3].decode()}"
    return Head(
        method=line[1].decode(),
        target=line[2].decode(),
        version=version,
        fields=fields,
        host=_host(fields),
        body=_body(fields, version),
    )


def _check_breaks(data: bytes, limits: Limits) -> None:
    # Checked again for each packet of an unfinished head: `re` takes a millisecond each time, `count` a tenth of that.
    breaks = data.count(b"\r\n")
    if not breaks == data.count(b"\n") == data.count(b"\r") - data.endswith(b"\r"):
        raise BadHeadError("a bare CR or LF in the request head")
    if breaks > limits.head_fields + 1:
        raise BadHeadError(f"more than {limits.head_fields} header fields", 431)


def _request_line(first: bytes) -> re.Match[bytes]:
    line = REQUEST_LINE.fullmatch(first)
    if line is None:
        raise BadHeadError("the request line is not `METHOD target HTTP/1.1`")
    if len(line[1]) > METHOD_BYTES:
        raise BadHeadError("the method is too long")
    return line


def _field(line: bytes) -> tuple[bytes, bytes]:
    found = FIELD.fullmatch(line)
    if found is None:
        folded = line[:1] in (b" ", b"\t")
        raise BadHeadError("a folded header line" if folded else "a malformed header line")
    return found[1], found[2] or b""


def _values(fields: tuple[tuple[bytes, bytes], ...], name: bytes) -> list[bytes]:
    return [value for key, value in fields if key.lower() == name]


def _host(fields: tuple[tuple[bytes, bytes], ...]) -> str | None:
    hosts = _values(fields, b"host")
    if len(hosts) > 1:
        raise BadHeadError("more than one Host header")
    if hosts and not hosts[0].isascii():
        raise BadHeadError("a Host header that is not ASCII")
    return hosts[0].decode() if hosts else None


def _body(fields: tuple[tuple[bytes, bytes], ...], version: str) -> int | None:
    lengths, codings = _values(fields, b"content-length"), _values(fields, b"transfer-encoding")
    if lengths and codings:
        raise BadHeadError("both Content-Length and Transfer-Encoding")
    if len(lengths) > 1 or len(codings) > 1:
        raise BadHeadError("more than one Content-Length or Transfer-Encoding")
    if codings:
        if version != "HTTP/1.1" or codings[0].lower() != b"chunked":
            raise BadHeadError("a Transfer-Encoding other than `chunked`")
        return None
    if lengths and not LENGTH.fullmatch(lengths[0]):
        raise BadHeadError("a Content-Length that is not a plain number")
    return int(lengths[0]) if lengths else 0
