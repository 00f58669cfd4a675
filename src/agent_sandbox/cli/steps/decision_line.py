"""A decision of the proxy as one line, with its effect coloured."""

from collections.abc import Mapping
from typing import Any

from agent_sandbox.cli.terminal.style import Styled, styled
from agent_sandbox.runtime.proxy.decisions import as_text

EFFECTS = ("allow", "deny")


def decision_line(record: Mapping[str, Any], *, indent: str = "") -> Styled:
    """Return an audit record as a line: time, effect, request, reason."""
    time, space, rest = as_text(record).partition("  ")
    effect = next((effect for effect in EFFECTS if rest.startswith(f"{effect} ")), "")
    return styled(f"{indent}{time}{space}", (effect, effect), rest[len(effect) :])
