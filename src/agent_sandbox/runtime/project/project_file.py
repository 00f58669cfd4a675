"""Read the project file and the build file that it names, as texts."""

import re
from collections.abc import Mapping
from pathlib import Path

from agent_sandbox.images import Additions
from agent_sandbox.problems import UserError
from agent_sandbox.render.formats.foreign import load_foreign
from agent_sandbox.render.paths import PROJECT_FILE
from agent_sandbox.runtime.host.files import read_text
from agent_sandbox.stack.engine import BUILD_KEY

FOLDER = Path(PROJECT_FILE).parent
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
# Only an escape could hide one of these keys from a text search.
ADDING = ("packages", "tools", BUILD_KEY, "\\")


def project_files(root: Path) -> dict[str, str]:
    """Return the texts of the project file and of the build file that it names, by their paths in the project."""
    text = read_text(root, PROJECT_FILE)
    if text is None:
        return {}
    beside = build_file_of(text)
    other = read_text(root, beside) if beside else None
    return {PROJECT_FILE: text} | ({} if other is None else {beside: other})


def made_of(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the project file and the build file that it names from the texts of a project's files."""
    names = (PROJECT_FILE, build_file_of(texts.get(PROJECT_FILE, "")))
    return {name: texts[name] for name in names if name in texts}


def build_file_of(text: str) -> str:
    """Return the path of the build file that a project file names, or ""."""
    if BUILD_KEY not in text and "\\" not in text:
        return ""
    try:
        document = load_foreign(text, file=PROJECT_FILE)
    except UserError:
        return ""  # `init` and `up` report what is wrong with it
    name = document.get(BUILD_KEY) if isinstance(document, dict) else None
    return str(FOLDER / name) if isinstance(name, str) and FILE_NAME.fullmatch(name) else ""


def additions_in(texts: Mapping[str, str]) -> Additions:
    """Return what these texts add to the agents' image; raise UserError if they are invalid."""
    text = texts.get(PROJECT_FILE, "")
    if not any(key in text for key in ADDING):
        return Additions()
    from agent_sandbox.projectfile.additions import additions  # noqa: PLC0415 - brings pydantic; few projects need it
    from agent_sandbox.projectfile.parsing import parse_project_file  # noqa: PLC0415 - as above

    beside = {Path(path).name: text for path, text in texts.items()}
    return additions(parse_project_file(text, file=PROJECT_FILE), beside, file=PROJECT_FILE)
