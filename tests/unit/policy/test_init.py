import pytest

from agent_sandbox import policy
from imports import brought_along

LIGHT = "from agent_sandbox.policy import decide, parse_request, Policy, Layer"


@pytest.mark.parametrize("name", ["PolicySpec", "compile_policy"])
def test_what_takes_long_to_import_is_there_when_it_is_asked_for(name: str) -> None:
    assert policy.__getattr__(name).__name__ == name


def test_no_other_name_is_made_up() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        policy.__getattr__("nonsense")


def test_until_then_neither_pydantic_nor_yaml_is_imported() -> None:
    assert {"pydantic", "yaml"} & brought_along(LIGHT) == set()
