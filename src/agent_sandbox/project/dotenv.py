"""Read what a project's `.env` tells editors and the plain command of the engine about the stack to use."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from agent_sandbox.host.files import MAX_BYTES, read_bytes, read_text
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.record import record_files, uses_dotenv
from agent_sandbox.project.render.dotenv import assignments
from agent_sandbox.project.render.editor_files import added_files
from agent_sandbox.project.render.paths import DEVCONTAINER, STACK, VALUES
from agent_sandbox.stack.engine import FILE_KIND, FILES_VARIABLE, NAME_VARIABLE, SEPARATOR_VARIABLE, STACK_VARIABLE

FILE = ".env"
BESIDE = Path(STACK).with_name(FILE)
# Each is read, parsed and shown, so a megabyte of names would be too much work.
MAX_FILES = 32
LONGEST_NAME = 200  # longer than any of our names, and short enough to print
# How the Dev Containers CLI reads the variable: the first line of exactly this form.
EDITOR_NAME = re.compile(rf"^{NAME_VARIABLE}=(.+)$", re.MULTILINE)
LINE_ENDS = re.compile("\r\n?|\u2028|\u2029")
NOT_IN_NAMES = re.compile(r"[^-_a-z0-9]")
OTHER_NAME = (
    f"{NAME_VARIABLE} is {{}}: an editor starts the stack under this name, where agent-sandbox does not find it"
)
OTHER_NAME_HINT = (
    f"name your own stack with `name:` in its {FILE_KIND}, and remove {NAME_VARIABLE} from .env or your shell"
)

OTHER_STACK = f"{STACK_VARIABLE} is {{}}: an editor starts the stack under this name"
OTHER_STACK_HINT = f"unset {STACK_VARIABLE} in your shell, and remove {VALUES}: agent-sandbox up writes it again"
HIDDEN = "it names {} where the engine could read another value than agent-sandbox does"


def variable(text: str, name: str) -> str | None:
    r"""Return the last value of a variable in a `.env`, without quotes.

    >>> variable("A=1\nexport A = '2'\n", "A")
    '2'
    """
    found = assignments(text).get(name)
    return found.value if found else None


def stack_files(root: Path, ours: Path, planned: Mapping[str, str] = MappingProxyType({})) -> tuple[Path, ...]:
    """Return the stack's files: ours, those that `.env` names beside it, and those that devcontainer.json does.

    `planned` has the texts of files that are not written yet.
    """
    named = _files_of_dotenv(root, ours, planned)
    names = added_files(read_text(root, DEVCONTAINER) or "")
    added = (Path(os.path.normpath(root / ours.parent / name)) for name in names)
    files = (*named, *(file for file in added if file not in named))
    if len(files) > MAX_FILES:
        what = f"`{FILES_VARIABLE}` names {len(files)} files; at most {MAX_FILES} are allowed"
        raise UserError([Problem(where=str(root / FILE), what=what, hint="merge some of them")])
    return files


def _files_of_dotenv(root: Path, ours: Path, planned: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files that `.env` names if ours is among them, else only ours.

    A stack that was made without `.env` does not read it: the file may be anything, or the agent's.
    """
    if not uses_dotenv({**record_files(root), **planned}):
        return (root / ours,)
    text = planned.get(FILE) or read_text(root, FILE) or ""
    separator = variable(text, SEPARATOR_VARIABLE) or ":"
    named = tuple(root / name for name in (variable(text, FILES_VARIABLE) or "").split(separator) if name)
    return named if root / ours in named else (root / ours,)


def editor_name(root: Path, environ: Mapping[str, str]) -> str | None:
    """Return the project name that an editor uses instead of the stack file's, or None.

    The Dev Containers CLI prefers the variable in its environment or in `.env` to the name in the stack file. It asks
    the engine's command for that name, which prefers the variable in a `.env` beside the file.
    """
    line = EDITOR_NAME.search(LINE_ENDS.sub("\n", _read(root / FILE)))
    beside = variable(_read(root / BESIDE), NAME_VARIABLE)
    said = (environ.get(NAME_VARIABLE), line[1] if line else None, beside)
    return next(filter(None, (NOT_IN_NAMES.sub("", (name or "").lower())[:LONGEST_NAME] for name in said)), None)


def _read(path: Path) -> str:
    """Return a file's text, also behind a link; "" for what an editor cannot read either."""
    file = Path(os.path.realpath(path))
    try:
        data = read_bytes(file.parent, file.name, limit=MAX_BYTES + 1) or b""
    except OSError:
        return ""
    if len(data) > MAX_BYTES:
        what = f"larger than {MAX_BYTES >> 20} MiB, so it was not searched for {NAME_VARIABLE}"
        raise UserError([Problem(where=str(path), what=what)])
    return data.decode(errors="replace")


def require_editor_name(root: Path, name: str, environ: Mapping[str, str]) -> None:
    """Raise UserError if an editor would start the stack of this name under another one."""
    found = editor_name(root, environ)
    if found not in (None, name):
        raise UserError([Problem(where=str(root), what=OTHER_NAME.format(found), hint=OTHER_NAME_HINT)])
    text = _read(root / VALUES)
    said = environ.get(STACK_VARIABLE) or variable(text, STACK_VARIABLE)
    if said not in (None, name):
        raise UserError([Problem(where=str(root), what=OTHER_STACK.format(said[:LONGEST_NAME]), hint=OTHER_STACK_HINT)])
    for hidden in (NAME_VARIABLE, STACK_VARIABLE):
        if _times_named(text, hidden) != (variable(text, hidden) is not None):
            raise UserError([Problem(where=str(root / VALUES), what=HIDDEN.format(hidden), hint=OTHER_STACK_HINT)])


def _times_named(text: str, name: str) -> int:
    """Return how often a variable is named: the engine reads spaces and quotes otherwise than `variable`."""
    return len(re.findall(rf"(?<![\w.-]){name}(?![\w.-])", text, re.ASCII))
