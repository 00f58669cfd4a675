import pytest

from agent_sandbox import policyfile
from imports import brought_along

LIGHT = "from agent_sandbox.policyfile import Catalogue, LayerFile, layer_beside, services_beside, shipped_services"


@pytest.mark.parametrize("name", ["load_layer", "load_policy", "parse_layer", "parse_service"])
def test_what_takes_long_to_import_is_there_when_it_is_asked_for(name: str) -> None:
    assert policyfile.__getattr__(name).__name__ == name


def test_no_other_name_is_made_up() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        policyfile.__getattr__("nonsense")


def test_until_then_neither_pydantic_nor_yaml_is_imported() -> None:
    assert {"pydantic", "yaml"} & brought_along(LIGHT) == set()
