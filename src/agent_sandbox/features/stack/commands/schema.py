"""`agent-sandbox project schema`."""

from agent_sandbox.cli.terminal.output import emit_json


def schema() -> None:
    """Print the JSON Schema of sandbox.yaml, for an editor that checks the file while you type."""
    from agent_sandbox.host.agents import known_agents  # noqa: PLC0415 - as above
    from agent_sandbox.projectfile.schema import project_schema  # noqa: PLC0415 - not needed for `--help`

    emit_json(project_schema(known_agents()))
