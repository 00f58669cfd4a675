"""Layers of this machine that the proxy of a stack does not see.

Apart from `layers`: a question about a policy needs no stack, and what reads a stack takes long to import.
"""

from collections.abc import Mapping

from agent_sandbox.backends.project import Project
from agent_sandbox.runtime.policies.layers import layers_here
from agent_sandbox.runtime.project.installed import bound_by

LEFT_OUT = "{} is there, but the stack was made without it: agent-sandbox init {}, then agent-sandbox up"


def left_out(project: Project, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Say which layers the proxy of the stack does not see, because they were not there when `init` made it."""
    bound = bound_by(project.root, "proxy")
    here = layers_here(environ, beside=project.policy)
    return tuple(
        LEFT_OUT.format(layer.path, project.agent) for layer in here if str(layer.path.parent.resolve()) not in bound
    )
