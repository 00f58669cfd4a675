import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.proxy.upstream.overrides import Override, parse_override
from table_tests import each


def test_parses_an_override_of_a_name() -> None:
    got = parse_override("API.test.:443:127.0.0.1:8443")
    assert got == Override(host="api.test", port=443, address="127.0.0.1", to=8443)


def test_parses_ipv6_addresses_in_brackets() -> None:
    got = parse_override("[2001:db8::1]:443:[::1]:8443")
    assert got == Override(host="2001:db8::1", port=443, address="::1", to=8443)


@each("text", ["", "a:443:127.0.0.1", "a:0:127.0.0.1:1", "a:1:127.0.0.1:99999", "a:443:b:443"])
def test_rejects_an_invalid_override(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_override(text)
    wanted = f"--resolve {text}: not HOST:PORT:ADDR:PORT; such as api.test:443:127.0.0.1:8443"
    assert wanted == str(caught.value)
