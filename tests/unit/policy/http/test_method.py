import pytest

from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.method import NAMEABLE, STANDARD, canonical_method, with_implied
from table_tests import each


@pytest.mark.parametrize("text", ["GET", "M-SEARCH", "TRACE", "BREW"])
def test_keeps_valid_methods_unchanged(text: str) -> None:
    assert canonical_method(text) == text


@each("text", ["get", "Get", "", "GET ", "GET\r\n", "GET/", "1GET", "G" * 33, "GÉT"])
def test_an_invalid_method_is_ambiguous(text: str) -> None:
    with pytest.raises(Ambiguous, match="not a method"):
        canonical_method(text)


def test_get_implies_head_and_nothing_implies_get() -> None:
    assert with_implied(["GET", "POST"]) == {"GET", "HEAD", "POST"}
    assert with_implied(["HEAD"]) == {"HEAD"}


def test_no_rule_can_name_a_method_that_echoes_or_tunnels() -> None:
    assert STANDARD < NAMEABLE
    assert not NAMEABLE & {"TRACE", "TRACK", "CONNECT"}
