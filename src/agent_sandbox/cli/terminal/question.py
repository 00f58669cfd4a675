"""Ask the user a question at the terminal."""

import os
import sys

from agent_sandbox.cli.terminal.output import rendered
from agent_sandbox.cli.terminal.wrapping import width_of


def answer_to(question: str) -> str | None:
    """Print the question to stderr, wrapped; return the answer in lower case, None at the end of the input."""
    text = rendered(question, width=width_of(sys.stderr, os.environ), colour=False)
    sys.stdout.flush()
    sys.stderr.write(f"{text} ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    return line.strip().lower() if line else None


def choice(question: str) -> str:
    """Return the answer to a question that names the possible ones; `q` at the end of the input."""
    answer = answer_to(question)
    return "q" if answer is None else answer


def agrees(question: str) -> bool:
    """Return whether the user answers yes; an empty answer means no."""
    return answer_to(f"{question} [y/N]") in {"y", "yes"}
