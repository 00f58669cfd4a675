"""The walk of the first day types the commands of the README's quick start."""

import re

from engine import ROOT
from first_day import steps

QUICK_START = re.compile(r"^## Quick start\n.*?^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_walk_starts_with_the_three_commands_of_the_quick_start() -> None:
    (block,) = QUICK_START.findall((ROOT / "README.md").read_text("utf-8"))
    promised = [line.removeprefix("$ ").replace("my-project", "~/express") for line in block.splitlines()]
    typed = [step.type for step in steps()[:3]]
    assert promised == ["pipx install .", "cd ~/express", "agent-sandbox run claude"]
    assert [line.startswith(start) for line, start in zip(typed, promised, strict=True)] == [True] * 3
