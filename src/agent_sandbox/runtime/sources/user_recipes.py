"""The user's recipes for several projects: `~/.config/agent-sandbox/secrets.yaml`. It holds no values.

The file names commands that run on the host machine, so it must be the user's own, and out of every project.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.file.fields import fits
from agent_sandbox.policy.match.host_pattern import Reach, parse_host_pattern
from agent_sandbox.policy.match.injection import parse_secret_name
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policyfile.text.document import Document, Place, parse_document
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.host.program_path import in_project
from agent_sandbox.runtime.sources.recipes import OTHERS_MAY_WRITE, Recipe
from agent_sandbox.runtime.sources.time_to_live import parse_ttl

MOST_BYTES = 1 << 18
REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def _host(text: str) -> str:
    pattern = parse_host_pattern(text)
    if pattern.reach is not Reach.EXACT:
        what = f"`{pattern}` is a wildcard, but a secret is bound to single hosts"
        raise InvalidValue(what, "name each host; otherwise any host below it would receive the secret")
    return pattern.name


def _directory(text: str) -> Path:
    path = Path(os.path.expanduser(text))  # noqa: PTH111 - pathlib raises if there is no home directory
    if not path.is_absolute():
        raise InvalidValue(f"not an absolute path: {safe_repr(text)}", "write a project's directory: ~/app")
    return path


class RecipeSpec(BaseModel):
    """One secret: where its value is from, where it may be sent, and which projects it serves."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, PlainValidator(fits(parse_secret_name))]
    hosts: Annotated[list[Annotated[str, PlainValidator(fits(_host))]], Field(min_length=1)]
    source: str = Field(alias="from", min_length=1)
    projects: Annotated[list[Annotated[Path, PlainValidator(fits(_directory))]], Field(min_length=1)]
    ttl: Annotated[float, PlainValidator(fits(parse_ttl))] | None = None


class UserRecipesSpec(BaseModel):
    """The file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[1]
    secrets: list[RecipeSpec] = Field(default_factory=list)


def user_recipes(file: Path, root: Path) -> tuple[Recipe, ...]:
    """Return the recipes that the user has bound to the project in this directory.

    Raise UserError for a file that is not valid, or that others could have written.
    """
    text = _content(file, root).decode("utf-8", "surrogateescape")
    spec = _checked(parse_document(text, file=str(file)), str(file))
    here = root.resolve()
    return tuple(
        Recipe(name=one.name, hosts=tuple(dict.fromkeys(one.hosts)), source=one.source, ttl=one.ttl)
        for one in spec.secrets
        if any(project.resolve() == here for project in one.projects)
    )


def _checked(document: Document, file: str) -> UserRecipesSpec:
    problems = list(document.problems)
    try:
        spec = UserRecipesSpec.model_validate(document.value)
    except ValidationError as error:
        raise UserError([*problems, *_problems(error, document, file)]) from error
    names = [one.name for one in spec.secrets]
    for number, name in enumerate(names):
        if name in names[:number]:
            where = _where(document, ("secrets", number, "name"), file)
            problems.append(Problem(where=where, what=f"{name} is here twice", hint="keep one, with all its projects"))
    if problems:
        raise UserError(problems)
    return spec


def _problems(error: ValidationError, document: Document, file: str) -> Iterator[Problem]:
    for details in error.errors(include_url=False):
        location = details["loc"]
        context = details.get("ctx", {})
        match details["type"]:
            case "invalid_value":
                what, hint = str(context["what"]), str(context["hint"])
            case "extra_forbidden":
                known = UserRecipesSpec if len(location) == 1 else RecipeSpec
                keys = ", ".join(field.alias or name for name, field in known.model_fields.items())
                what, hint = f"unknown key {safe_repr(str(location[-1]))}", f"the keys are {keys}"
            case "missing":
                what, hint = f"`{location[-1]}` is missing", ""
            case _:
                what, hint = details["msg"].lower(), ""
        is_key = details["type"] == "extra_forbidden"
        yield Problem(where=_where(document, location, file, is_key=is_key), what=what, hint=hint)


def _where(document: Document, location: tuple[int | str, ...], file: str, *, is_key: bool = False) -> str:
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
        raise UserError([Problem(where=str(file), what=what, hint="it must be a file, and no link")]) from error
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
