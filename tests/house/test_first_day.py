"""What README promises for the beginning is what the walk of the first day types."""

from __future__ import annotations

import re

from engine import ROOT
from first_day import steps

QUICK_START = re.compile(r"^## Quick start\n.*?^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_quick_start_is_three_commands_which_the_walk_begins_with() -> None:
    (block,) = QUICK_START.findall((ROOT / "README.md").read_text("utf-8"))
    promised = [line.removeprefix("$ ").replace("my-project", "~/express") for line in block.splitlines()]
    typed = [step.type for step in steps()[:3]]
    assert promised == ["pipx install .", "cd ~/express", "agent-sandbox run claude"]
    assert [line.startswith(start) for line, start in zip(typed, promised, strict=True)] == [True] * 3
