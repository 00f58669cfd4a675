"""The two lines of a project's `.env` that say which stack plain `docker compose` takes."""

from pathlib import Path

from agent_sandbox.render.dotenv import assignments
from agent_sandbox.runtime.files import read_text

FILE = ".env"


def variable(text: str, name: str) -> str | None:
    r"""Return the last value that a `.env` gives a variable, without its quotes.

    >>> variable("A=1\nexport A = '2'\n", "A")
    '2'
    """
    found = assignments(text).get(name)
    return found.value if found else None


def compose_files(root: Path, ours: Path) -> tuple[Path, ...]:
    """Return the files that make up the stack: those that `.env` names where ours is among them, else ours alone."""
    text = read_text(root, FILE) or ""
    separator = variable(text, "COMPOSE_PATH_SEPARATOR") or ":"
    named = tuple(root / name for name in (variable(text, "COMPOSE_FILE") or "").split(separator) if name)
    return named if root / ours in named else (root / ours,)
