"""`agent-sandbox policy schema`."""

from agent_sandbox.cli.terminal.output import emit_json
from agent_sandbox.policyfile import shipped_services
from agent_sandbox.policyfile.resolved import RESOLVED


def schema() -> None:
    """Print the JSON Schema of policy.yaml, for an editor that checks the file while you type."""
    from agent_sandbox.policy.file.schema import policy_schema  # noqa: PLC0415 - not needed for `--help`
    from agent_sandbox.policyfile.parse.aliases import every_alias  # noqa: PLC0415 - as above

    emit_json(policy_schema({*shipped_services(), *RESOLVED, *every_alias()}))
