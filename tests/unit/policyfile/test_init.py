import pytest

from agent_sandbox import policyfile
from imports import brought_along

LIGHT = "from agent_sandbox.policyfile import Catalogue, LayerFile, layer_beside, services_beside, shipped_services"


@pytest.mark.parametrize("name", ["load_layer", "load_policy", "parse_layer", "parse_service"])
def test_provides_lazily_imported_names(name: str) -> None:
    assert policyfile.__getattr__(name).__name__ == name


def test_raises_attribute_error_for_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        policyfile.__getattr__("nonsense")


def test_importing_the_package_imports_neither_pydantic_nor_yaml() -> None:
    assert {"pydantic", "yaml"} & brought_along(LIGHT) == set()
