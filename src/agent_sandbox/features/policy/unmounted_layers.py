"""Find this machine's layers that the proxy of a stack does not see.

Separate from `layers`, because policy commands need no stack, and the code that reads one is slow to import.
"""

from collections.abc import Mapping

from agent_sandbox.features.policy.layers import layers_here
from agent_sandbox.project.installed import read_facts
from agent_sandbox.project.project import Project

LEFT_OUT = "{} exists, but the stack was made without it: {}"


def unmounted_layers(
    project: Project, environ: Mapping[str, str], *, mending: str = "agent-sandbox up"
) -> tuple[str, ...]:
    """Return a note for each layer that did not exist when the stack was made, with the command that mounts it."""
    bound = read_facts(project.root).layers
    here = layers_here(environ, beside=project.policy)
    return tuple(
        LEFT_OUT.format(layer.path, mending) for layer in here if str(layer.path.parent.resolve()) not in bound
    )
