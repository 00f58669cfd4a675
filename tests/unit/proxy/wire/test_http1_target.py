import pytest

from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.http1_head import BadHeadError, parse_request
from agent_sandbox.proxy.wire.http1_target import Target, split_target
from table_tests import each

TUNNEL = Tunnel(client="", carries=Carries.TLS, host="a.test", port=443)
PROXY = Tunnel(client="", carries=Carries.PROXY)


def split(target: str, tunnel: Tunnel, *, method: str = "GET", host: str = "Host: a.test\r\n") -> Target:
    return split_target(parse_request(f"{method} {target} HTTP/1.1\r\n{host}\r\n".encode(), Limits()), tunnel)


def test_a_tunnel_accepts_a_path() -> None:
    assert split("/x?y", TUNNEL) == Target(path="/x?y")


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("http://A.test/x?y", Target(host="a.test", port=80, path="/x?y")),
        ("HTTP://a.test:8080", Target(host="a.test", port=8080, path="/")),
        ("http://a.test?q", Target(host="a.test", port=80, path="/?q")),
        ("http://[::1]:81/", Target(host="::1", port=81, path="/")),
    ],
)
def test_the_explicit_proxy_accepts_a_full_http_url(target: str, wanted: Target) -> None:
    assert split(target, PROXY) == wanted


@each(
    ("target", "tunnel", "problem"),
    [
        (
            "http://a.test/",
            TUNNEL,
            (
                "a full URL, as for another proxy, but the sandbox's proxy is the only one: "
                "unset the variable (such as http_proxy) or the option that names the other"
            ),
        ),
        ("*", TUNNEL, "the request target '*' is not a path"),
        ("/", PROXY, "this is a proxy: send CONNECT, or a request with a full http:// URL"),
        ("https://a.test/", PROXY, "the proxy accepts only http:// URLs here; use CONNECT for https"),
        ("http://u@a.test/", PROXY, "the proxy accepts only http:// URLs here; use CONNECT for https"),
        ("http://127.1/", PROXY, "ambiguous: an address that programs read differently: '127.1'"),
    ],
)
def test_rejects_any_other_target(target: str, tunnel: Tunnel, problem: str) -> None:
    with pytest.raises(BadHeadError) as caught:
        split(target, tunnel)
    assert problem == str(caught.value)


def test_rejects_a_second_connect_and_a_request_without_a_host_header() -> None:
    with pytest.raises(BadHeadError, match="CONNECT is valid only as the first request to the proxy"):
        split("a.test:443", PROXY, method="CONNECT")
    with pytest.raises(BadHeadError, match="CONNECT, as for another proxy, but the sandbox's proxy is the only one"):
        split("a.test:443", TUNNEL, method="CONNECT")
    with pytest.raises(BadHeadError, match="no Host header"):
        split("/", TUNNEL, host="")
