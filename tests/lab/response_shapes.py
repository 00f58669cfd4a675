"""Responses that two programs could read differently, and odd ones that real servers send.

`FORGED` stands where one reader sees the end of a response and another its body: it must never reach a client.
"""

OK = b"HTTP/1.1 200 OK\r\n"
FORGED = b"HTTP/1.1 200 OK\r\nX-Forged: yes\r\nContent-Length: 6\r\n\r\nforged"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
MARK = b"X-Mark: bad-head\r\n"

FOLDED = "a folded header line"
LINE = "a malformed header line"
BREAK = "a bare CR or LF in the response head"
BOTH = "both Content-Length and Transfer-Encoding"
TWICE = "more than one Content-Length or Transfer-Encoding"
TAB = "a tab after the value of Content-Length or Transfer-Encoding"
NUMBER = "the Content-Length is not a plain number"
CODING = "a Transfer-Encoding other than `chunked`"
STATUS = "the status line is not `HTTP/1.1 status reason`"
NOT_HTTP = "it is not HTTP/1"


def said(*lines: bytes, body: bytes = b"") -> bytes:
    """Return a 200 with a mark and these lines."""
    return OK + MARK + b"".join(lines) + b"\r\n" + body


def length(value: bytes) -> bytes:
    """Return a response with this Content-Length."""
    return said(b"Content-Length: " + value + b"\r\n", body=FORGED)


def coding(value: bytes, *lines: bytes) -> bytes:
    """Return a response with this Transfer-Encoding."""
    return said(b"Transfer-Encoding: " + value + b"\r\n", *lines, body=b"0\r\n\r\n" + FORGED)


def named(first_line: bytes) -> bytes:
    """Return a response with this status line."""
    return first_line + b"\r\n" + MARK + b"Content-Length: 2\r\n\r\nok"


# The attack, what it sends, and the reason in the 502.
REJECTED: dict[str, tuple[bytes, str]] = {
    "a length and chunks": (coding(b"chunked", b"Content-Length: 5\r\n"), BOTH),
    "chunks and a length": (said(b"Content-Length: 5\r\n", CHUNKED, body=b"0\r\n\r\n" + FORGED), BOTH),
    "a length and an empty coding": (said(b"Content-Length: 0\r\n", b"Transfer-Encoding:\r\n", body=FORGED), BOTH),
    "two lengths": (said(b"Content-Length: 0\r\n", b"Content-Length: 5\r\n", body=FORGED), TWICE),
    "one length twice": (said(b"Content-Length: 2\r\n", b"content-length: 2\r\n", body=b"ok"), TWICE),
    "a list of lengths": (length(b"2, 2"), NUMBER),
    "a length below zero": (length(b"-1"), NUMBER),
    "a length with a plus": (length(b"+5"), NUMBER),
    "a length in hexadecimal": (length(b"0x10"), NUMBER),
    "a length in octal": (length(b"010"), NUMBER),
    "a length with a fraction": (length(b"5.0"), NUMBER),
    "a length with an underscore": (length(b"1_0"), NUMBER),
    "a length in parts": (length(b"1 0"), NUMBER),
    "a length of other digits": (length("\N{ARABIC-INDIC DIGIT FIVE}".encode()), NUMBER),
    "a length past 64 bits": (length(b"18446744073709551617"), NUMBER),
    "an empty length": (length(b""), NUMBER),
    "a length with a tab behind it": (length(b"5\t "), TAB),
    "chunked with a tab behind it": (coding(b"chunked \t"), TAB),
    "chunked twice": (coding(b"chunked, chunked"), CODING),
    "chunked in two fields": (coding(b"chunked", CHUNKED), TWICE),
    "xchunked": (coding(b"xchunked"), CODING),
    "gzip, chunked": (coding(b"gzip, chunked"), CODING),
    "identity": (coding(b"identity"), CODING),
    "gzip": (coding(b"gzip"), CODING),
    "an empty coding": (coding(b""), CODING),
    "a quoted coding": (coding(b'"chunked"'), CODING),
    "chunked with a vertical tab": (coding(b"\x0bchunked"), LINE),
    "chunked in HTTP/1.0": (b"HTTP/1.0 200 OK\r\n" + MARK + CHUNKED + b"\r\n0\r\n\r\n" + FORGED, CODING),
    "a folded field": (said(b"X: a\r\n b\r\n", b"Content-Length: 0\r\n"), FOLDED),
    "a folded length": (said(b"Content-Length:\r\n 5\r\n", body=FORGED), FOLDED),
    "a coding folded away": (said(b"X: a\r\n", b" Transfer-Encoding: chunked\r\n", body=FORGED), FOLDED),
    "a first line that is folded": (OK + b" " + MARK + b"Content-Length: 0\r\n\r\n", FOLDED),
    "a space before the colon": (said(b"Content-Length : 5\r\n", body=FORGED), LINE),
    "a tab before the colon": (said(b"Transfer-Encoding\t: chunked\r\n", body=b"0\r\n\r\n" + FORGED), LINE),
    "an underscore in a coding": (
        said(b"Transfer_Encoding: chunked\r\n", body=b"0\r\n\r\n" + FORGED),
        "a header named Transfer_Encoding, which some programs read as Transfer-Encoding",
    ),
    "an underscore in a length": (
        said(b"Content_Length: 5\r\n", body=FORGED),
        "a header named Content_Length, which some programs read as Content-Length",
    ),
    "no colon": (said(b"Content-Length\r\n", b"Content-Length: 0\r\n"), LINE),
    "no name": (said(b": x\r\n", b"Content-Length: 0\r\n"), LINE),
    "a name that is not a token": (said(b"X(y): z\r\n", b"Content-Length: 0\r\n"), LINE),
    "a name with NUL": (said(b"Content-Length\0: 5\r\n", body=FORGED), LINE),
    "a value with NUL": (said(b"X: a\0b\r\n", b"Content-Length: 0\r\n"), LINE),
    "a value with DEL": (said(b"X: a\x7fb\r\n", b"Content-Length: 0\r\n"), LINE),
    "bare LF at all lines": (said(b"Content-Length: 0\r\n").replace(b"\r\n", b"\n") + b"\r\n\r\n", BREAK),
    "bare LF at one line": (said(b"X: a\nContent-Length: 5\r\n", body=FORGED), BREAK),
    "bare LF before the body": (OK + MARK + b"Content-Length: 0\r\n\n" + FORGED, BREAK),
    "bare CR in a value": (said(b"X: a\rSet-Cookie: b\r\n", b"Content-Length: 0\r\n"), BREAK),
    "bare CR between fields": (said(b"X: a\rContent-Length: 5\r\n", body=FORGED), BREAK),
    "CR CR LF": (said(b"X: a\r\r\n", b"Content-Length: 0\r\n"), BREAK),
    "NUL in the reason": (named(b"HTTP/1.1 200 O\0K"), STATUS),
    "bare CR in the reason": (named(b"HTTP/1.1 200 O\rK"), BREAK),
    "two spaces": (named(b"HTTP/1.1  200 OK"), NOT_HTTP),
    "a tab before the status": (named(b"HTTP/1.1\t200 OK"), NOT_HTTP),
    "four digits": (named(b"HTTP/1.1 2000 OK"), NOT_HTTP),
    "two digits": (named(b"HTTP/1.1 20 OK"), NOT_HTTP),
    "a status below 100": (named(b"HTTP/1.1 099 OK"), NOT_HTTP),
    "a status with a sign": (named(b"HTTP/1.1 +20 OK"), NOT_HTTP),
    "HTTP/1.2": (named(b"HTTP/1.2 200 OK"), NOT_HTTP),
    "HTTP/2.0": (named(b"HTTP/2.0 200 OK"), NOT_HTTP),
    "HTTP/01.1": (named(b"HTTP/01.1 200 OK"), NOT_HTTP),
    "http in lower case": (named(b"http/1.1 200 OK"), NOT_HTTP),
    "ICY": (named(b"ICY 200 OK"), NOT_HTTP),
    "an empty line first": (b"\r\n" + named(b"HTTP/1.1 200 OK"), NOT_HTTP),
    "a space first": (b" " + named(b"HTTP/1.1 200 OK"), NOT_HTTP),
    "a byte order mark": (b"\xef\xbb\xbf" + named(b"HTTP/1.1 200 OK"), NOT_HTTP),
    "a body without a head": (MARK + b"\r\n" + FORGED, NOT_HTTP),
    "a malformed interim response": (b"HTTP/1.1 103 x\r\n" + MARK + b"X : y\r\n\r\n" + FORGED, LINE),
    "an interim response, then rubbish": (b"HTTP/1.1 100 Continue\r\n\r\n" + MARK + b"\r\n" + FORGED, NOT_HTTP),
    "a 204 with two lengths": (
        b"HTTP/1.1 204 No Content\r\n" + MARK + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\n" + FORGED,
        TWICE,
    ),
    "a 304 with both": (
        b"HTTP/1.1 304 Not Modified\r\n" + MARK + CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n" + FORGED,
        BOTH,
    ),
    "too many fields": (said(*[b"X: y\r\n"] * 2_000), "more than 2000 header fields"),
    "a giant field": (said(b"X: " + b"y" * 300_000 + b"\r\n"), "its head is larger than 262144 bytes"),
    "a giant reason": (named(b"HTTP/1.1 200 " + b"y" * 300_000), "its head is larger than 262144 bytes"),
    "interim responses without end": (
        b"HTTP/1.1 103 Early Hints\r\nX-Mark: bad-head\r\n\r\n" * 8_000,
        "its head is larger than 262144 bytes",
    ),
}

CLOSED = b"HTTP/1.0 200 OK\r\n\r\nuntil the end"
# What real servers send, and what an HTTP/1.1 client gets of it.
ACCEPTED: dict[str, tuple[bytes, bytes]] = {
    "no reason": (named(b"HTTP/1.1 200 "), named(b"HTTP/1.1 200 ")),
    "no reason and no space": (named(b"HTTP/1.1 200"), named(b"HTTP/1.1 200 ")),
    "a reason beyond ASCII": (named(b"HTTP/1.1 200 gr\xfc\xdfe\t!"), named(b"HTTP/1.1 200 gr\xfc\xdfe\t!")),
    "a status of no class": (named(b"HTTP/1.1 999 Request denied"), named(b"HTTP/1.1 999 Request denied")),
    "a value beyond ASCII": (
        said(b"X: caf\xc3\xa9 \xff\r\nContent-Length: 0\r\n"),
        said(b"X: caf\xc3\xa9 \xff\r\nContent-Length: 0\r\n"),
    ),
    "space around values": (
        said(b"X:\t a b \t \r\nContent-Length: \t2  \r\n", body=b"ok"),
        said(b"X: a b\r\nContent-Length: 2\r\n", body=b"ok"),
    ),
    "no space before a value": (said(b"content-length:2\r\n", body=b"ok"), said(b"content-length: 2\r\n", body=b"ok")),
    "an empty value": (said(b"X:\r\nContent-Length: 0\r\n"), said(b"X: \r\nContent-Length: 0\r\n")),
    "odd names": (said(b"X_y.z!~: a\r\nContent-Length: 0\r\n"), said(b"X_y.z!~: a\r\nContent-Length: 0\r\n")),
    "200 fields": (
        said(*[b"Set-Cookie: a=b\r\n"] * 200, b"Content-Length: 0\r\n"),
        said(*[b"Set-Cookie: a=b\r\n"] * 200, b"Content-Length: 0\r\n"),
    ),
    "HTTP/1.0 with a length": (
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ),
    "HTTP/1.0 until the connection closes": (CLOSED, CLOSED),
    "HTTP/1.1 until the connection closes": (OK + b"\r\nuntil the end", OK + b"\r\nuntil the end"),
    "chunks with extensions": (
        OK + CHUNKED + b'\r\n2;name="a; b"\r\nok\r\n0;last\r\n\r\n',
        OK + CHUNKED + b"\r\n2\r\nok\r\n0\r\n\r\n",
    ),
    "chunk sizes with space and zeros": (
        OK + CHUNKED + b"\r\n0002  \r\nok\r\n000\r\n\r\n",
        OK + CHUNKED + b"\r\n2\r\nok\r\n0\r\n\r\n",
    ),
    "chunks in capitals": (
        OK + b"Transfer-Encoding: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: Chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n",
    ),
    "chunks with trailers": (
        OK + CHUNKED + b"\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\nX: y\r\n\r\n",
        OK + CHUNKED + b"\r\n2\r\nok\r\n0\r\n\r\n",
    ),
    "a 204": (b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n", b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n"),
    "a 204 with a length": (
        b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
    ),
    "a 204 in chunks": (b"HTTP/1.1 204 No Content\r\n" + CHUNKED + b"\r\n", b"HTTP/1.1 204 No Content\r\n\r\n"),
    "a 304 with a length": (
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
    ),
    "a 304 in chunks": (b"HTTP/1.1 304 Not Modified\r\n" + CHUNKED + b"\r\n", b"HTTP/1.1 304 Not Modified\r\n\r\n"),
    "100 Continue first": (b"HTTP/1.1 100 Continue\r\n\r\n" + named(b"HTTP/1.1 200 OK"), named(b"HTTP/1.1 200 OK")),
    "102 and 103 first": (
        b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + named(b"HTTP/1.1 200 OK"),
        named(b"HTTP/1.1 200 OK"),
    ),
}
