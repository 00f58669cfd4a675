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
def test_an_authority_is_a_host_and_a_port(text: str, expected: tuple[str, int]) -> None:
    assert parse_authority(text, default_port=None) == expected


def test_a_port_that_is_left_out_is_the_default() -> None:
    assert parse_authority("allowed.test", default_port=80) == ("allowed.test", 80)


@each(
    ("text", "doubt"),
    [
        ("allowed.test", "the port is missing"),
        ("allowed.test:", "'' is no port"),
        ("allowed.test:0", "'0' is no port"),
        ("allowed.test:0443", "'0443' is no port"),
        ("allowed.test:+443", "'+443' is no port"),
        ("allowed.test:443a", "'443a' is no port"),
        ("allowed.test:65536", "'65536' is no port"),
        ("allowed.test:\u0664\u0664\u0663", r"'\u0664\u0664\u0663' is no port"),
        ("allowed.test:443\n", r"'443\n' is no port"),
        ("allowed.test:443:443", "'443:443' is no port"),
        ("user@allowed.test:443", "'user@allowed.test:443' is no `host:port`"),
        ("2001:db8::1:443", "'2001' is an address in a form that programs read differently"),
        ("[2001:db8::1]443", "'[2001:db8::1]443' is no `host:port`"),
        (":443", "'' is no host name"),
        ("allowed.test :443", "'allowed.test ' is no host name"),
    ],
)
def test_what_is_no_authority_is_doubtful(text: str, doubt: str) -> None:
    with pytest.raises(Ambiguous) as raised:
        parse_authority(text, default_port=None)
    assert str(raised.value) == doubt
