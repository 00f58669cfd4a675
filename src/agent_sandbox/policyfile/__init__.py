"""Read policy files, check them with line numbers, and compile them with `policy`. Used by the CLI and the proxy.

The pydantic models of a file are in `policy/file`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_sandbox.policyfile.catalogue import Catalogue, services_beside, shipped_services
    from agent_sandbox.policyfile.layer_file import LayerFile, layer_beside
    from agent_sandbox.policyfile.loading import load_layer, load_policy
    from agent_sandbox.policyfile.parse.parsing import parse_layer, parse_service

__all__ = [
    "Catalogue",
    "LayerFile",
    "layer_beside",
    "load_layer",
    "load_policy",
    "parse_layer",
    "parse_service",
    "services_beside",
    "shipped_services",
]

# Imported on first use: YAML and the models take ten times as long to import as Python takes to start, and some
# commands need only a module of this package that imports none of these.
LAZY = {
    "Catalogue": "catalogue",
    "LayerFile": "layer_file",
    "layer_beside": "layer_file",
    "load_layer": "loading",
    "load_policy": "loading",
    "parse_layer": "parse.parsing",
    "parse_service": "parse.parsing",
    "services_beside": "catalogue",
    "shipped_services": "catalogue",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - one of the names above
    if name not in LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{LAZY[name]}"), name)
