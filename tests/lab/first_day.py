"""The steps of the first day (day/steps.yaml), typed into a real zsh by a test and by `make demo DAY=1`."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from people import read_first
from real_stacks import LAB
from typed_shell import TypedShell
from users_machine import UsersMachine

STEPS = LAB / "day" / "steps.yaml"
SECONDS = 120
BEGUN, ENDED = "\x1b]133;C\x07", re.compile("\x1b]133;D;([0-9]+)\x07.*?\x1b]133;B\x07", re.DOTALL)
ASKED = "    {}  .*?  Esc  back to the agent"  # from the line of the key to the last one
CONTROL = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[=>])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: what Ann types, her answer or key at a question, the expected output, and the exit code."""

    type: str
    title: str = ""
    answer: str = ""
    press: str = ""
    see: Sequence[str] = ()
    code: int = 0


class StepError(AssertionError):
    """A step that failed, with the text on the screen."""


def steps() -> list[Step]:
    """Return the steps of the day."""
    return [Step(**row) for row in yaml.safe_load(STEPS.read_text())]


def sit_down(
    machine: UsersMachine, folder: Path, *, columns: int = 80, show: Callable[[str], object] = lambda _: None
) -> TypedShell:
    """Open Ann's shell; `show` receives the text on the screen."""
    shell = TypedShell((*machine.as_ann, "zsh"), os.environ, folder, columns=columns, show=show)
    shell.read("", until=ENDED)
    return shell


def take(step: Step, shell: TypedShell) -> None:
    """Take one step, with its title as a comment, and check the screen afterwards."""
    said = ""
    if step.title:
        shell.read(f"# {step.title}\n", until=ENDED)
    if step.answer:
        said, _ = shell.read(f"{step.type}\n", until=re.compile(r"\[y/N\] $"), seconds=SECONDS)
    if step.press:
        said, _ = shell.read(f"{step.type}\n", until=re.compile(ASKED.format(step.press), re.DOTALL), seconds=SECONDS)
        read_first()
    keys = step.press or f"{step.answer or step.type}\n"
    rest, ended = shell.read(keys, until=ENDED, seconds=SECONDS)
    words = " ".join(CONTROL.sub("", (said + rest).rpartition(BEGUN)[2]).split())
    missing = [text for text in step.see if text not in words]
    if missing or int(ended[1]) != step.code:
        raise StepError(f"{step.type}\nended with {ended[1]}, without {missing}:\n{said}{rest}")
