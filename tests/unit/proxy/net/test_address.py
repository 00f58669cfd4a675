import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.proxy.net.address import parse_address
from table_tests import each


def test_parses_an_ipv6_address_with_a_port() -> None:
    assert parse_address("[::1]:8080", option="--listen") == ("::1", 8080)


@each("text", ["", "127.0.0.1", "8080", "::1:8080", "a:70000"])
def test_rejects_text_that_is_not_an_address_with_a_port(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_address(text, option="--listen")
    assert str(caught.value) == f"--listen {text}: not ADDR:PORT; such as 127.0.0.1:8080"
