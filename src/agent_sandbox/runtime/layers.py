"""The policy of a project as this machine makes it: with the user's layer and the organisation's."""

from collections.abc import Mapping
from pathlib import Path

from agent_sandbox.policy.effective import Policy
from agent_sandbox.policyfile import LayerFile, layer_beside, load_policy
from agent_sandbox.runtime.places import layer_folders

FILE = "policy.yaml"


def load_here(policy: Path, environ: Mapping[str, str]) -> Policy:
    """Load a policy with the layers of this machine; raise UserError with what is wrong in any of them."""
    return load_policy(policy, layers=layers_here(environ, beside=policy))


def layers_here(environ: Mapping[str, str], *, beside: Path) -> tuple[LayerFile, ...]:
    """Return the layers that are there, lowest first, beside a policy that may itself be one of them."""
    every = (layer_beside(name, folder / FILE) for name, folder in layer_folders(environ).items())
    return tuple(layer for layer in every if layer.is_there and layer.path != beside.absolute())
