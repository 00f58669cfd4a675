"""Read the two lines of a project's `.env` that tell plain `docker compose` which stack to use."""

from pathlib import Path

from agent_sandbox.problems import Problem, UserError
from agent_sandbox.render.dotenv import assignments
from agent_sandbox.runtime.host.files import read_text
from agent_sandbox.stack.engine import FILES_VARIABLE, SEPARATOR_VARIABLE

FILE = ".env"
# Each is read, parsed and shown, so a megabyte of names would be too much work.
MAX_FILES = 32


def variable(text: str, name: str) -> str | None:
    r"""Return the last value of a variable in a `.env`, without quotes.

    >>> variable("A=1\nexport A = '2'\n", "A")
    '2'
    """
    found = assignments(text).get(name)
    return found.value if found else None


def stack_files(root: Path, ours: Path) -> tuple[Path, ...]:
    """Return the stack's compose files: those that `.env` names if ours is among them, else only ours."""
    text = read_text(root, FILE) or ""
    separator = variable(text, SEPARATOR_VARIABLE) or ":"
    named = tuple(root / name for name in (variable(text, FILES_VARIABLE) or "").split(separator) if name)
    if len(named) > MAX_FILES:
        what = f"`{FILES_VARIABLE}` names {len(named)} files; at most {MAX_FILES} are allowed"
        raise UserError([Problem(where=str(root / FILE), what=what, hint="merge some of them")])
    return named if root / ours in named else (root / ours,)
