"""Read a file of the user's own in `~/.config/agent-sandbox`, with every problem at its place.

Such a file names commands that run on the host machine, or where data is sent. So it must be the user's own, and
outside every project.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ValidationError

from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policyfile.text.document import Document, Place, parse_document
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.host.program_path import in_project

MOST_BYTES = 1 << 18
OTHERS_MAY_WRITE = 0o022
REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

type Location = tuple[int | str, ...]


def read_user_file[Spec: BaseModel](
    file: Path, root: Path, spec: type[Spec], *, parts: type[BaseModel] | None = None
) -> tuple[Spec, Document]:
    """Return the file by its model, and its document. `parts` is the model of the items of its lists.

    Raise UserError for a file that is not valid, or that others could have written.
    """
    document = parse_document(_content(file, root).decode("utf-8", "surrogateescape"), file=str(file))
    try:
        return spec.model_validate(document.value), document
    except ValidationError as error:
        raise UserError([*document.problems, *_problems(error, document, str(file), (spec, parts))]) from error


def _problems(
    error: ValidationError, document: Document, file: str, models: tuple[type[BaseModel], type[BaseModel] | None]
) -> Iterator[Problem]:
    for details in error.errors(include_url=False):
        location = details["loc"]
        context = details.get("ctx", {})
        match details["type"]:
            case "invalid_value":
                what, hint = str(context["what"]), str(context["hint"])
            case "extra_forbidden":
                keys = ", ".join(_keys(models[0] if len(location) == 1 else models[1] or models[0]))
                what, hint = f"unknown key {safe_repr(str(location[-1]))}", f"the keys are {keys}"
            case "missing":
                what, hint = f"`{location[-1]}` is missing", ""
            case _:
                what, hint = details["msg"].lower(), ""
        is_key = details["type"] == "extra_forbidden"
        yield Problem(where=place_of(document, location, file, is_key=is_key), what=what, hint=hint)


def _keys(model: type[BaseModel]) -> Iterator[str]:
    return (field.alias or name for name, field in model.model_fields.items())


def place_of(document: Document, location: Location, file: str, *, is_key: bool = False) -> str:
    """Return `FILE:LINE:COLUMN` of a value, or of the next one that contains it."""
    found = document.keys.get(location) if is_key else None
    while location and location not in document.places:
        location = location[:-1]
    place = found or document.places.get(location, Place(line=1, column=1))
    return f"{file}:{place.line}:{place.column}"


def _content(file: Path, root: Path) -> bytes:
    if file.resolve().is_relative_to(root.resolve()) or in_project(file):
        what = "this file is in a project, where an agent could name commands that run as you"
        hint = "set XDG_CONFIG_HOME to a directory outside all projects"
        raise UserError([Problem(where=str(file), what=what, hint=hint)])
    try:
        handle = os.open(file, REGULAR)
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise UserError([Problem(where=str(file), what=what, hint="it must be a file, not a link")]) from error
    try:
        found = os.fstat(handle)
        for path, state in ((file, found), (file.parent, file.parent.stat())):
            if state.st_uid != os.geteuid() or state.st_mode & OTHERS_MAY_WRITE:
                what = "others may write here, and so could name commands that run as you"
                raise UserError([Problem(where=str(path), what=what, hint=f"make it yours: chmod go-w {path}")])
        if not stat.S_ISREG(found.st_mode):
            raise UserError([Problem(where=str(file), what="not a regular file")])
        content = os.read(handle, MOST_BYTES + 1)
    finally:
        os.close(handle)
    if len(content) > MOST_BYTES:
        raise UserError([Problem(where=str(file), what=f"longer than {MOST_BYTES >> 10} KiB")])
    return content
