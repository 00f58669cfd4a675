import pytest

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.match.upstream import (
    HOW,
    Authorities,
    Upstream,
    UpstreamProxy,
    parse_ca_name,
    parse_upstream_proxy,
)

CA = Authorities(name="corp-ca.pem (sha256 0a1b)", pem="...")
PROXY = UpstreamProxy(tls=False, host="proxy.corp.example", port=3128)
AROUND = tuple(map(parse_host_pattern, (".near.example", "198.51.100.7")))


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("http://proxy.corp.example:3128", PROXY),
        ("HTTP://Proxy.Corp.Example.:3128/", PROXY),
        ("https://proxy.corp.example:443", UpstreamProxy(tls=True, host="proxy.corp.example", port=443)),
        ("http://10.1.2.3:8080", UpstreamProxy(tls=False, host="10.1.2.3", port=8080)),
        ("http://[fd12::1]:8080", UpstreamProxy(tls=False, host="fd12::1", port=8080)),
        ("http://203.0.113.9:8080", UpstreamProxy(tls=False, host="203.0.113.9", port=8080)),
        ("http://host:3128", UpstreamProxy(tls=False, host="host", port=3128)),
    ],
)
def test_parses_a_proxy_url_to_scheme_host_and_port(written: str, means: UpstreamProxy) -> None:
    assert parse_upstream_proxy(written) == means
    assert parse_upstream_proxy(str(means)) == means


PAC = "PAC files are programs, and are not read; name the proxy that yours returns"


@pytest.mark.parametrize(
    ("written", "what", "hint"),
    [
        (
            "SOCKS5://proxy.corp.example:1080",
            "not a proxy URL: 'SOCKS5://proxy.corp.example:1080': only HTTP proxies are supported, not SOCKS",
            HOW,
        ),
        ("pac+http://wpad.example/x", f"not a proxy URL: 'pac+http://wpad.example/x': {PAC}", HOW),
        ("http://wpad.example/wpad.dat", f"not a proxy URL: 'http://wpad.example/wpad.dat': {PAC}", HOW),
        ("proxy.corp.example:3128", "not a proxy URL: 'proxy.corp.example:3128'", HOW),
        ("http://proxy.corp.example:3128/path", "not a proxy URL: 'http://proxy.corp.example:3128/path'", HOW),
        ("http://", "not a proxy URL: 'http://'", HOW),
        ("http://proxy.corp.example", "not a proxy URL: 'http://proxy.corp.example': the port is missing", HOW),
        ("http://127.1:8", "not a proxy URL: 'http://127.1:8': ", HOW),
        ("http://localhost:3128", "`localhost` is the sandbox's proxy itself", "http://host:3128"),
        ("http://x.localhost:3128", "`x.localhost` is the sandbox's proxy itself", "http://host:3128"),
        ("http://127.0.0.1:3128", "127.0.0.1 cannot be the upstream proxy (loopback)", "http://host:3128"),
        ("http://169.254.169.254:80", "169.254.169.254 cannot be the upstream proxy (link-local)", ""),
        ("http://[fd00:ec2::254]:80", "fd00:ec2::254 cannot be the upstream proxy (private)", ""),
    ],
)
def test_rejects_an_invalid_proxy_with_a_hint(written: str, what: str, hint: str) -> None:
    with pytest.raises(InvalidValue) as invalid:
        parse_upstream_proxy(written)
    assert invalid.value.what.startswith(what)
    assert hint in invalid.value.hint


@pytest.mark.parametrize("text", ["http://me:hunter2@proxy.corp.example:3128", "me:hunter2@proxy.corp.example"])
def test_proxy_url_with_credentials_is_rejected_without_printing_them(text: str) -> None:
    with pytest.raises(InvalidValue) as invalid:
        parse_upstream_proxy(text)
    assert invalid.value.what == "the proxy URL has credentials"
    assert "`upstream-auth`" in invalid.value.hint
    assert "hunter2" not in invalid.value.what + invalid.value.hint


def test_uses_the_proxy_for_hosts_that_are_not_in_no_proxy() -> None:
    upstream = Upstream(layer="user", proxy=PROXY, no_proxy=AROUND)
    hosts = ("far.example", "near.example", "x.near.example", "198.51.100.7")
    assert [upstream.proxy_for(host) for host in hosts] == [PROXY, None, None, None]
    assert Upstream(layer="user", ca=CA).proxy_for("far.example") is None


def test_shows_and_dumps_upstream_settings() -> None:
    whole = Upstream(layer="user", proxy=PROXY, no_proxy=AROUND, ca=CA)
    assert str(whole) == (
        "all allowed requests go through http://proxy.corp.example:3128, except .near.example, 198.51.100.7; "
        "corp-ca.pem (sha256 0a1b) can sign for every host"
    )
    assert whole.dumped() == {
        "layer": "user",
        "proxy": "http://proxy.corp.example:3128",
        "no_proxy": [".near.example", "198.51.100.7"],
        "ca": "corp-ca.pem (sha256 0a1b)",
    }
    assert Upstream(layer="user", proxy=PROXY).dumped()["ca"] is None
    assert str(Upstream(layer="user", proxy=PROXY)) == "all allowed requests go through http://proxy.corp.example:3128"
    alone = Upstream(layer="user", ca=CA)
    assert (str(alone), alone.dumped()["proxy"]) == ("corp-ca.pem (sha256 0a1b) can sign for every host", None)


def test_ca_has_to_be_in_the_directory_of_the_policy() -> None:
    assert parse_ca_name("corp-ca.pem") == "corp-ca.pem"
    with pytest.raises(InvalidValue, match="`ca` has to be in the directory of the policy file"):
        parse_ca_name("../corp-ca.pem")


def test_authorities_have_their_file_name() -> None:
    assert (
        Authorities(name="corp.pem (sha256 00)", pem="").file == Authorities(name="corp.pem", pem="").file == "corp.pem"
    )
