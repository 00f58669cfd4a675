"""policy.yaml: text with line numbers -> the compiled policy. The one door for the host's CLI and for the proxy."""

from agent_sandbox.policyfile.layerfile import LayerFile, layer_beside
from agent_sandbox.policyfile.loading import (
    Catalogue,
    load_layer,
    load_policy,
    parse_layer,
    parse_service,
    services_beside,
    shipped_services,
)

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
