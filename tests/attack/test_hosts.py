"""Host matching and address encodings: rows H1-H9, C9, D7 and R3 of the attack list."""

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from attack_stand import Stand
from capture_server import Capture
from proxy_stand import ProxyProcess, get, read_all, read_head


@pytest.mark.parametrize(
    "host",
    ["evilallowed.test", "allowed.test.evil.test", "allowed-test", "wild.test", "evil.test", "wild.test.evil.test"],
)
def test_denies_a_host_that_only_resembles_an_allowed_one(stand: Stand, host: str) -> None:
    assert stand.proxy.say(get(f"http://{host}/api/", host)).startswith(b"HTTP/1.1 403")
    assert stand.proxy.ask(host, get("/api/", host)).startswith(b"HTTP/1.1 403")
    stand.proxy.line(decision="deny", host=host, port=443)
    stand.assert_nothing_got_out()


@pytest.mark.parametrize("host", ["ALLOWED.TEST", "allowed.test.", "Allowed.TEST."])
def test_letter_case_and_a_trailing_dot_do_not_change_the_host(stand: Stand, host: str) -> None:
    answer = stand.proxy.say(get(f"http://{host}/api/", host))
    assert answer.startswith(b"HTTP/1.1 200")
    assert stand.proxy.line(decision="allow")["host"] == "allowed.test"
    assert stand.allowed_plain.requests[0].field("host") == ["allowed.test"]


@pytest.mark.parametrize(("host", "status"), [("a.wild.test", 200), ("a.b.wild.test", 200), ("wild.test", 403)])
def test_a_wildcard_matches_every_subdomain_but_not_the_apex(stand: Stand, host: str, status: int) -> None:
    assert stand.proxy.say(get(f"http://{host}/", host)).startswith(b"HTTP/1.1 %d" % status)


@pytest.mark.parametrize(
    "host",
    [
        "\u0430llowed.test",  # a Cyrillic letter
        "\uff41llowed.test",  # a full-width one
        "allowed\u3002test",  # an ideographic full stop
        "allowed.te\u017ft",  # a long s
        "\u212aallowed.test",  # the Kelvin sign
        "allo\u00dfed.test",  # a sharp s
        "\u0430l\u043bowed.test",  # letters of two scripts
    ],
)
def test_rejects_unencoded_lookalike_letters_in_a_host(stand: Stand, host: str) -> None:
    encoded = host.encode()
    request = b"GET http://%s/api/ HTTP/1.1\r\nHost: %s\r\n\r\n" % (encoded, encoded)
    assert stand.proxy.say(request).startswith(b"HTTP/1.1 400")
    connect = b"CONNECT %s:443 HTTP/1.1\r\n\r\n" % encoded
    assert stand.proxy.say(connect).startswith(b"HTTP/1.1 400")
    stand.assert_nothing_got_out()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("xn--llowed-2nf.test", 403),  # with the Cyrillic letter
        ("XN--LLOWED-2NF.test.", 403),
        ("allowed.xn--tet-jya", 400),  # no name encodes to this
        ("xn--allowed-.test", 400),
        ("%61llowed.test", 400),
        ("allowed.test%2eevil.test", 400),
    ],
)
def test_denies_punycode_lookalikes_and_rejects_invalid_host_encodings(stand: Stand, host: str, status: int) -> None:
    assert stand.proxy.say(get(f"http://{host}/api/", host)).startswith(b"HTTP/1.1 %d" % status)
    named: dict[str, Any] = {"host": "xn--llowed-2nf.test"} if status == 403 else {}
    stand.proxy.line(decision="deny", **named)
    stand.assert_nothing_got_out()


@pytest.mark.parametrize("written", ["b\u00fccher.wild.example", "xn--bcher-kva.wild.example"])
def test_an_internationalised_name_matches_by_its_punycode(tmp_path: Path, written: str) -> None:
    host = "xn--bcher-kva.wild.example"
    policy = f"version: 1\ndomains: [{written}]\n"
    with Capture() as capture, ProxyProcess(tmp_path, policy, resolve={(host, 80): capture.port}) as proxy:
        assert proxy.say(get(f"http://{host.upper()}/", host)).startswith(b"HTTP/1.1 200")
        assert proxy.line(event="request")["host"] == host
        assert capture.requests[0].field("host") == [host]
        raw = "b\u00fccher.wild.example".encode()  # no HTTP client sends this
        assert proxy.say(b"CONNECT %s:80 HTTP/1.1\r\n\r\n" % raw).startswith(b"HTTP/1.1 400")
        assert len(capture.requests) == 1


@pytest.mark.parametrize("port", [8443, 22, 8080])
def test_a_port_that_no_rule_names_is_denied(stand: Stand, port: int) -> None:
    answer = stand.proxy.say(get(f"http://allowed.test:{port}/api/", f"allowed.test:{port}"))
    assert answer.startswith(b"HTTP/1.1 403")
    stand.proxy.line(decision="deny", host="allowed.test", port=port)
    stand.assert_nothing_got_out()


def test_an_entry_with_a_port_allows_only_that_port(stand: Stand) -> None:
    assert stand.proxy.ask("ports.test", get("/", "ports.test:8443"), port=8443).startswith(b"HTTP/1.1 200")
    assert stand.proxy.ask("ports.test", get("/", "ports.test")).startswith(b"HTTP/1.1 403")


def test_denies_an_allowed_name_that_resolves_to_a_loopback_address(stand: Stand) -> None:
    answer = stand.proxy.say(get("http://inside.test/", "inside.test", "Accept: application/json"))
    assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\nx-agent-sandbox: blocked")
    line = stand.proxy.line(decision="deny", host="inside.test")
    assert line["reason"] == "inside.test resolves to 127.0.0.1, a loopback address"


INNER = [
    *("inside.test", "localhost", "x.localhost", "metadata.google.internal"),
    *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1"),
    "0.0.0.0",  # noqa: S104 - requested, not bound
    *("169.254.169.254", "168.63.129.16", "100.100.100.200", "224.0.0.1", "255.255.255.255", "198.18.0.1"),
    *("[::]", "[::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fd00:ec2::254]", "[fe80::1]", "[fec0::1]"),
]
OTHER_SPELLINGS = [
    "0",
    *("2130706433", "127.1", "0x7f.1", "0177.0.0.1", "2852039166", "0x7f000001", "127.0.0.1.", "127.0.0.01"),
    *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "localhost.", "LOCALHOST", "[fe80::1%25eth0]", "[0:0:0:0:0:0:0:1]"),
]
# Every name resolves to a private address. All connections lead to the server here, so a failing check leaks nothing.
INSIDE = """
import asyncio, socket
from ipaddress import ip_address
from agent_sandbox.proxy.upstream import dialler
resolve = socket.getaddrinfo
def inside(host, *rest, **more):
    address = ip_address(bytes.fromhex(host.partition(".")[0][1:])) if host.endswith(".leads.test") else "127.0.0.1"
    return resolve(host if host[0].isdigit() or ":" in host else str(address), *rest, **more)
async def connect(address, port):
    return await asyncio.open_connection("127.0.0.1", {port})
socket.getaddrinfo = inside
dialler.Dialler.__init__.__kwdefaults__.update(connect=connect)
"""


@pytest.fixture(scope="module")
def open_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ProxyProcess, Capture]]:
    """A proxy whose policy allows every host, and a server that no request must reach."""
    with Capture() as capture:
        policy = f"version: 1\nallow_all: true\ndomains: [{{host: '*', ports: [80, 443, {capture.port}]}}]\n"
        sabotage = INSIDE.format(port=capture.port)
        with ProxyProcess(tmp_path_factory.mktemp("open"), policy, sabotage=sabotage) as proxy:
            assert proxy.ask_control("status")["policy"]["problems"] == []
            yield proxy, capture


@pytest.mark.parametrize("host", INNER + OTHER_SPELLINGS)
def test_denies_every_spelling_of_a_private_address_even_with_allow_all(
    open_proxy: tuple[ProxyProcess, Capture], host: str
) -> None:
    proxy, capture = open_proxy
    for port in (80, capture.port):
        capture.forget()
        proxy.forget()
        answer = proxy.say(get(f"http://{host}:{port}/", f"{host}:{port}"))
        assert answer[:12] in (b"HTTP/1.1 403", b"HTTP/1.1 400"), answer
        proxy.line(decision="deny")
        with proxy.connect() as connection:
            connection.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())
            if read_head(connection).startswith(b"HTTP/1.1 200"):
                connection.sendall(get("/", f"{host}:{port}"))
                assert read_all(connection)[:12] == b"HTTP/1.1 403"
        assert capture.connections == 0


def leading_to(address: str) -> str:
    return f"x{ip_address(address.strip('[]')).packed.hex()}.leads.test"


@pytest.mark.parametrize("address", [host for host in INNER if host[-1] in "0123456789]"] + ["[::ffff:10.0.0.1]"])
def test_denies_names_that_resolve_to_private_addresses(open_proxy: tuple[ProxyProcess, Capture], address: str) -> None:
    proxy, capture = open_proxy
    capture.forget()
    proxy.forget()
    name = leading_to(address)
    assert proxy.say(get(f"http://{name}/", name)).startswith(b"HTTP/1.1 403")
    assert proxy.line(decision="deny", host=name)["cause"] == "address"
    assert capture.connections == 0


def test_connects_to_a_name_that_resolves_to_a_public_address(open_proxy: tuple[ProxyProcess, Capture]) -> None:
    proxy, capture = open_proxy
    capture.forget()
    name = leading_to("203.0.113.137")
    assert proxy.say(get(f"http://{name}/", name)).startswith(b"HTTP/1.1 200")
    assert capture.connections == 1


def test_the_denial_names_the_kind_of_address(open_proxy: tuple[ProxyProcess, Capture]) -> None:
    proxy, _ = open_proxy
    answer = proxy.say(get("http://inside.test/latest/", "inside.test", "Accept: application/json"))
    reason = proxy.line(decision="deny", host="inside.test", path="/latest/", status=403)["reason"]
    assert reason == "inside.test resolves to 127.0.0.1, a loopback address"
    assert b"the proxy connects only to public addresses, unless `host_services` names a private one" in answer


def test_a_policy_cannot_allow_a_loopback_address(open_proxy: tuple[ProxyProcess, Capture], tmp_path: Path) -> None:
    _, capture = open_proxy
    with ProxyProcess(tmp_path, "version: 1\ndomains: [127.0.0.1]\nhost_services: {x: {to: 127.0.0.1:80}}\n") as proxy:
        said = proxy.ask_control("status")["policy"]["problems"]
        assert "127.0.0.1 is not a public address" in said[0]
        assert "127.0.0.1 is not a private address" in said[1]
        assert proxy.say(get(f"http://127.0.0.1:{capture.port}/", "127.0.0.1"))[:12] == b"HTTP/1.1 403"
