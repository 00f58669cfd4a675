"""The policy of a project as this machine makes it: with the user's layer and the organisation's."""

from collections.abc import Mapping
from pathlib import Path

from agent_sandbox.backends.project import Project
from agent_sandbox.policy.effective import Policy
from agent_sandbox.policyfile import LayerFile, layer_beside, load_policy
from agent_sandbox.runtime.installed import bound_by
from agent_sandbox.runtime.places import layer_folders

FILE = "policy.yaml"
LEFT_OUT = "{} is there, but the stack was made without it: agent-sandbox init {}, then agent-sandbox up"


def load_here(policy: Path, environ: Mapping[str, str]) -> Policy:
    """Load a policy with the layers of this machine; raise UserError with what is wrong in any of them."""
    return load_policy(policy, layers=layers_here(environ, beside=policy))


def layers_here(environ: Mapping[str, str], *, beside: Path) -> tuple[LayerFile, ...]:
    """Return the layers that are there, lowest first, beside a policy that may itself be one of them."""
    every = (layer_beside(name, folder / FILE) for name, folder in layer_folders(environ).items())
    return tuple(layer for layer in every if layer.is_there and layer.path != beside.absolute())


def left_out(project: Project, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Say which layers the proxy of the stack does not see, because they were not there when `init` made it."""
    bound = bound_by(project.root, "proxy")
    here = layers_here(environ, beside=project.policy)
    return tuple(
        LEFT_OUT.format(layer.path, project.agent) for layer in here if str(layer.path.parent.resolve()) not in bound
    )
