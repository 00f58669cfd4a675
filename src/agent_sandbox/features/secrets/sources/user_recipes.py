"""The user's recipes for several projects: `~/.config/agent-sandbox/secrets.yaml`. It holds no values.

The file names commands that run on the host machine, so it must be the user's own, and out of every project.
"""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from agent_sandbox.features.secrets.sources.recipes import Recipe
from agent_sandbox.features.secrets.sources.time_to_live import parse_ttl
from agent_sandbox.host.user_file import read_user_file
from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.file.fields import fits
from agent_sandbox.policy.match.injection import parse_secret_name
from agent_sandbox.policy.text import safe_repr
from agent_sandbox.policyfile.parse.checking import where_is
from agent_sandbox.policytools.unset_secrets import single_host
from agent_sandbox.problems import Problem, UserError


def _directory(text: str) -> Path:
    path = Path(os.path.expanduser(text))  # noqa: PTH111 - pathlib raises if there is no home directory
    if not path.is_absolute():
        raise InvalidValue(f"not an absolute path: {safe_repr(text)}", "write a project's directory: ~/app")
    return path


class RecipeSpec(BaseModel):
    """One secret: where its value is from, where it may be sent, and which projects it serves."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Annotated[str, PlainValidator(fits(parse_secret_name))]
    hosts: Annotated[list[Annotated[str, PlainValidator(fits(single_host))]], Field(min_length=1)]
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
    spec, document = read_user_file(file, root, UserRecipesSpec, parts={"secrets": RecipeSpec})
    problems: list[Problem] = []
    names = [one.name for one in spec.secrets]
    for number, name in enumerate(names):
        if name in names[:number]:
            where = where_is(document, str(file), ("secrets", number, "name"))
            problems.append(Problem(where=where, what=f"{name} is here twice", hint="keep one, with all its projects"))
    if problems:
        raise UserError(problems)
    here = root.resolve()
    return tuple(
        Recipe(name=one.name, hosts=tuple(dict.fromkeys(one.hosts)), source=one.source, ttl=one.ttl)
        for one in spec.secrets
        if any(project.resolve() == here for project in one.projects)
    )
