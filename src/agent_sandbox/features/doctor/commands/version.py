"""`agent-sandbox version`."""

import platform

from agent_sandbox import __version__
from agent_sandbox.cli.framework.options import Json
from agent_sandbox.cli.terminal.output import emit_json, emit_lines
from agent_sandbox.host.agents import known_agents, load_manifest


def version(*, as_json: Json = False) -> None:
    """Print the versions of agent-sandbox, Python, the system, and each agent that it can install."""
    manifests = [load_manifest(agent) for agent in known_agents()]
    versions = {
        "agent-sandbox": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "agents": {manifest.name: manifest.version for manifest in manifests},
    }
    if as_json:
        emit_json(versions)
        return
    rows = (("agent-sandbox", __version__), ("Python", platform.python_version()), ("system", platform.platform()))
    emit_lines(f"{name:<13}  {text}" for name, text in rows)
    emit_lines(f"{manifest.name:<13}  {manifest.version}  {manifest.title}" for manifest in manifests)
