import pytest

from agent_sandbox import policy
from imports import brought_along

LIGHT = "from agent_sandbox.policy import decide, parse_request, Policy, Layer"


@pytest.mark.parametrize("name", ["PolicySpec", "compile_policy"])
def test_loads_slow_imports_on_demand(name: str) -> None:
    assert policy.__getattr__(name).__name__ == name


def test_rejects_unknown_attributes() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        policy.__getattr__("nonsense")


def test_light_imports_load_neither_pydantic_nor_yaml() -> None:
    assert {"pydantic", "yaml"} & brought_along(LIGHT) == set()
