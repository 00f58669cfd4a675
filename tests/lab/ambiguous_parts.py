"""Parts of requests that servers are known to read in different ways."""


def corpus(text: str) -> list[bytes]:
    r"""Take a text of parts apart; lines end nowhere in it but at `\n`.

    >>> corpus(r"a|b\r")
    [b'a', b'b\r']
    """
    return [part.encode().decode("unicode_escape").encode("latin-1") for part in text.replace("\n", "").split("|")]


PATHS = corpus(
    r"""/|a|B|.|..|%2e|%2E|%2f|%5c|%61|%41|%7e|~|;|;a=..|//|%|%zz|%00|%25|%252e|\\|*|@|:|+|%20|'|^|secret|Secret
|%73ecret|#|%c3%a9|\xc3\xa9|&"""
)
METHODS = corpus(r"GET|POST|PUT|HEAD|get|CONNECT|G T")
STARTS = corpus(
    r"""POST http://allowed.test/%s HTTP/1.1\r\n|POST http://allowed.test/%s HTTP/1.0\r\n|POST /%s HTTP/0.9\r\n
|POST /%s HTTP/1.10\r\n|POST /%s HTTP/2.0\r\n|POST http://evil.test/%s HTTP/1.1\r\n|POST //evil.test/%s HTTP/1.1\r\n
|POST http://allowed.test:80/%s HTTP/1.1\r\n|POST http://ALLOWED.test./%s HTTP/1.1\r\n|POST  /%s HTTP/1.1\r\n
|POST /%s HTTP/1.1 \r\n|POST /%s\tHTTP/1.1\r\n|POST /%s HTTP/1.1\n|\r\nPOST /%s HTTP/1.1\r\n|POST /%s\r\n"""
)
FIELDS = corpus(
    r"""Host: evil.test|Host : allowed.test| Host: evil.test|Host: allowed.test, evil.test|Host:allowed.test:80
|host: ALLOWED.TEST|Host:\tallowed.test |X: a\r\n b|X: a\rContent-Length: 9|X: a\nContent-Length: 9|X: a\0b
|X\0: a|X: \x80\xff|X:|: x|X|X Y: z|X: y\x0b|Expect: 100-continue|Expect: x|Connection: content-length
|Connection: transfer-encoding, host|Connection: close|Trailer: X|Proxy-Connection: keep-alive|TE: trailers
|Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQ|Content-Encoding: chunked
|Cookie: a\r\nCookie: b"""
)
LENGTHS = corpus(r"5|+5|0x5|5, 5|5,6|-5| 5 |05|5\x0b|5 5||99|0|5;|1e1|18446744073709551621")
CODINGS = corpus(
    r"""chunked|Chunked|xchunked|chunked, identity|identity|gzip, chunked|\x0bchunked|chunked;q=1|chunked, chunked
| chunked\t|"chunked"|chunke\xc5\xbf"""
)
FRAMINGS = [
    *(b"Content-Length: " + value for value in LENGTHS),
    *(b"Transfer-Encoding: " + value for value in CODINGS),
    *corpus(r"Transfer-Encoding : chunked|Transfer-Encoding:\r\n chunked|Transfer_Encoding: chunked"),
    *corpus(r"Content-Length : 5|Content_Length: 5|Content-Length: 5\nX: y"),
]
BODIES = corpus(
    r"""|hello|5\r\nhello\r\n0\r\n\r\n|5;a=b\r\nhello\r\n0\r\n\r\n|5 ; a\r\nhello\r\n0\r\n\r\n|5\nhello\n0\n\n
|5\r\nhello0\r\n\r\n|0x5\r\nhello\r\n0\r\n\r\n|5\r\nhello\r\n0\r\nX: y\r\n\r\n|05\r\nhello\r\n00\r\n\r\n
|5;\n\r\nhello\r\n0\r\n\r\n|5\rhello\r\n0\r\n\r\n|FFFFFFFFFFFFFFFF5\r\nhello\r\n|0\r\n\r\n|0\r\n|5\r\nhel
|5;a="\r\n"\r\nhello\r\n0\r\n\r\n"""
)
BEHIND = corpus(
    r"""|GET /secret/%s HTTP/1.1\r\nHost: allowed.test\r\n\r\n|GET /%s/next HTTP/1.1\r\nHost: allowed.test\r\n\r\n"""
)
# Of HTTP/2, where a field may hold what would end a line elsewhere.
NAMES = corpus(r"x|X|x y|x:|:path|:x|transfer-encoding|content-length|host|connection|upgrade|x\r\ny|te||cookie")
VALUES = corpus(
    r"""x|a\r\nX: y|a\nGET /secret HTTP/1.1|a\0b| x |\tx|5|chunked|evil.test|allowed.test
|a\r\n\r\nGET /secret/h2 HTTP/1.1\r\nHost: allowed.test\r\n\r\n"""
)
AUTHORITIES = corpus(
    r"evil.test|allowed.test:443|ALLOWED.test.||a@allowed.test|allowed.test\r\nX: y|allowed.test evil.test"
)
TARGETS = corpus(
    r"x|*|http://evil.test/x|/x HTTP/1.1\r\nHost: evil.test\r\n\r\n|//evil.test/x|/x\ty|/x y|/secret|/x#/secret"
)
VERBS = corpus(r"GET|get|CONNECT|PO ST|POST / HTTP/1.1\r\nX: y\r\n\r\nGET|")
