import ssl

import pytest

from agent_sandbox.proxy.wire.client_hello import BadHelloError, Hello, looks_like_tls, read_hello
from table_tests import each


def real_hello(host: str | None, alpn: tuple[str, ...] = ()) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname = host is not None
    if alpn:
        context.set_alpn_protocols(list(alpn))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    stream = context.wrap_bio(incoming, outgoing, server_hostname=host)
    with pytest.raises(ssl.SSLWantReadError):
        stream.do_handshake()
    return outgoing.read()


def record(message: bytes) -> bytes:
    return b"\x16\x03\x01" + len(message).to_bytes(2) + message


def extension(kind: int, content: bytes) -> bytes:
    return kind.to_bytes(2) + len(content).to_bytes(2) + content


def names(*listed: bytes, kind: int = 0) -> bytes:
    content = b"".join(bytes([kind]) + len(name).to_bytes(2) + name for name in listed)
    return extension(0, len(content).to_bytes(2) + content)


def hello(*extensions: bytes, tail: bytes = b"") -> bytes:
    joined = b"".join(extensions)
    counted = len(joined).to_bytes(2) + joined if extensions else b""
    body = b"\x03\x03" + bytes(32) + b"\0" + b"\0\x02\x13\x01" + b"\x01\0" + counted + tail
    return b"\x01" + len(body).to_bytes(3) + body


def test_reads_the_name_and_protocols_of_a_real_client_hello() -> None:
    offered = b"\0\x0c\x02h2\x08http/1.1"
    wanted = Hello(names=("api.example.com",), protocols=offered)
    assert read_hello(real_hello("api.example.com", ("h2", "http/1.1"))) == wanted


def test_a_client_hello_to_an_address_has_no_name() -> None:
    assert read_hello(real_hello(None)) == Hello()


def test_reads_a_client_hello_split_over_many_records() -> None:
    message = hello(names(b"a.test"))
    data = b"".join(record(message[at : at + 5]) for at in range(0, len(message), 5))
    assert read_hello(data) == Hello(names=("a.test",))


def test_rejects_a_client_hello_in_more_than_16_records() -> None:
    message = hello(names(b"a.test"))
    records = [record(message[at : at + 1]) for at in range(17)]
    assert read_hello(b"".join(records[:16])) is None
    with pytest.raises(BadHelloError, match="in more than 16 records"):
        read_hello(b"".join(records))


def test_returns_none_for_every_incomplete_client_hello() -> None:
    data = record(hello(names(b"a.test")))
    assert [read_hello(data[:end]) for end in range(len(data))] == [None] * len(data)


def test_ignores_bytes_after_the_client_hello() -> None:
    assert read_hello(record(hello()) + b"rubbish that follows") == Hello()


def test_reads_at_most_two_server_names() -> None:
    assert read_hello(record(hello(names(*[b"a.test"] * 1_000)))) == Hello(names=("a.test", "a.test"))


def test_accepts_100_extensions() -> None:
    assert read_hello(record(hello(*(extension(kind, b"") for kind in range(10, 110))))) == Hello()


def test_reports_several_names_and_an_encrypted_client_hello() -> None:
    data = record(hello(names(b"a.test", b"b.test"), extension(0xFE0D, b"x")))
    assert read_hello(data) == Hello(names=("a.test", "b.test"), encrypted=True)


@each(
    ("data", "problem"),
    [
        (b"\x17\x03\x01\x00\x01x", "not a TLS handshake record"),
        (b"\x16\x02\x01\x00\x01x", "not a TLS handshake record"),
        (b"\x16\x03\x01\x00\x00", "not a TLS handshake record"),
        (b"\x16\x03\x01\xff\xff", "not a TLS handshake record"),
        (record(b"\x02\0\0\0"), "the first TLS message is not a ClientHello"),
        (record(b"\x01\0\0\x02\x03\x03"), "the ClientHello ends too early"),
        (record(hello(extension(5, b""), tail=b"x")), "extra bytes after the extensions of the ClientHello"),
        (record(hello(extension(5, b""), extension(5, b""))), "a duplicate extension in the ClientHello"),
        (record(hello(extension(0, b"\0\0x"))), "extra bytes after the server names"),
        (
            record(hello(*(extension(kind, b"") for kind in range(101)))),
            "more than 100 extensions in the ClientHello",
        ),
        (record(hello(names(b"a.test", kind=1))), "a server name that is not an ASCII host name"),
        (record(hello(names(b"caf\xc3\xa9"))), "a server name that is not an ASCII host name"),
    ],
)
def test_malformed_or_ambiguous_client_hello_is_rejected(data: bytes, problem: str) -> None:
    with pytest.raises(BadHelloError) as caught:
        read_hello(data)
    assert problem == str(caught.value)


@pytest.mark.parametrize("data", [b"\x16", b"\x16\x03", b"\x16\x03\x01", b"\x16\x03\x03\x01"])
def test_recognises_a_tls_record_from_its_first_byte_on(data: bytes) -> None:
    assert looks_like_tls(data)


@each("data", [b"", b"GET", b"\x16\x02", b"\x16\x03\x09", b"SSH-2.0"])
def test_does_not_take_other_first_bytes_for_tls(data: bytes) -> None:
    assert not looks_like_tls(data)
