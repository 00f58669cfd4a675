import pytest

from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.authority import parse_authority
from table_tests import each


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Allowed.test:443", ("allowed.test", 443)),
        ("allowed.test.:8443", ("allowed.test", 8443)),
        ("192.0.2.1:1", ("192.0.2.1", 1)),
        ("[2001:DB8::1]:65535", ("2001:db8::1", 65535)),
    ],
)
def test_parses_an_authority_to_host_and_port(text: str, expected: tuple[str, int]) -> None:
    assert parse_authority(text, default_port=None) == expected


def test_uses_the_default_port_if_there_is_none() -> None:
    assert parse_authority("allowed.test", default_port=80) == ("allowed.test", 80)


@each(
    ("text", "doubt"),
    [
        ("allowed.test", "the port is missing"),
        ("allowed.test:", "not a port: ''"),
        ("allowed.test:0", "not a port: '0'"),
        ("allowed.test:0443", "not a port: '0443'"),
        ("allowed.test:+443", "not a port: '+443'"),
        ("allowed.test:443a", "not a port: '443a'"),
        ("allowed.test:65536", "not a port: '65536'"),
        ("allowed.test:\u0664\u0664\u0663", r"not a port: '\u0664\u0664\u0663'"),
        ("allowed.test:443\n", r"not a port: '443\n'"),
        ("allowed.test:443:443", "not a port: '443:443'"),
        ("user@allowed.test:443", "not `host:port`: 'user@allowed.test:443'"),
        ("2001:db8::1:443", "an address that programs read differently: '2001'"),
        ("[2001:db8::1]443", "not `host:port`: '[2001:db8::1]443'"),
        (":443", "not a host name: ''"),
        ("allowed.test :443", "not a host name: 'allowed.test '"),
    ],
)
def test_malformed_authority_is_ambiguous(text: str, doubt: str) -> None:
    with pytest.raises(Ambiguous) as raised:
        parse_authority(text, default_port=None)
    assert str(raised.value) == doubt
