"""Parse and check an agent manifest, `templates/<agent>/agent.yaml`.

Not a pydantic model, because every `init` reads one and importing pydantic takes longer than the rest of `init`.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agent_sandbox.problems import Problem, UserError

SLUG = re.compile(r"[a-z][a-z0-9-]{0,31}")
# No line breaks: values are used in Dockerfile arguments, compose files and environments.
LINE = re.compile(r"[^\x00-\x1f\x7f]{1,500}")
VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
PACKAGE = re.compile(r"(@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*")
VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?")
BELOW_HOME = re.compile(r"\.?[A-Za-z0-9_][A-Za-z0-9_.-]*(/\.?[A-Za-z0-9_][A-Za-z0-9_.-]*)*")

# A pattern describes a string, a list one or more of its element, a mapping exactly these keys.
type Shape = re.Pattern[str] | list[Shape] | Mapping[str, Shape]

SHAPE: Mapping[str, Shape] = {
    "name": SLUG,
    "title": LINE,
    "summary": LINE,
    "install": {"npm": {"package": PACKAGE, "version": VERSION}},
    "command": [LINE],
    "unattended": [LINE],
    "version_command": [LINE],
    "state": BELOW_HOME,
    "env": {},
    "services": [SLUG],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NpmPackage:
    """An npm package at a pinned version."""

    package: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentManifest:
    """One agent: its package, command, state directory and services."""

    name: str
    title: str
    summary: str
    npm: NpmPackage
    command: tuple[str, ...]
    # Arguments that make the agent act without asking for permission.
    unattended: tuple[str, ...]
    version_command: tuple[str, ...]
    state: str
    env: Mapping[str, str]
    services: tuple[str, ...]

    def build_arguments(self) -> dict[str, str]:
        """Return the build arguments of the image's per-agent stage."""
        return {
            "AGENT_NAME": self.name,
            "NPM_PACKAGE": self.npm.package,
            "NPM_VERSION": self.npm.version,
            "VERSION_COMMAND": shlex.join(self.version_command),
            "AGENT_STATE": self.state,
        }


def parse_manifest(document: Any, *, file: str) -> AgentManifest:  # noqa: ANN401 - whatever the file holds
    """Return the manifest in a YAML document, or raise UserError with all problems."""
    env = document.get("env") or {} if isinstance(document, dict) else {}
    shape = {**SHAPE, "env": dict.fromkeys(env, LINE)} if isinstance(env, dict) else SHAPE
    said = {"env": {}, **document} if isinstance(document, dict) else document
    faults = [*_faults(said, shape, ""), *_invalid_names(env)]
    if faults:
        raise UserError(Problem(where=file, what=fault) for fault in faults)
    return AgentManifest(
        name=said["name"],
        title=said["title"],
        summary=said["summary"],
        npm=NpmPackage(**said["install"]["npm"]),
        command=tuple(said["command"]),
        unattended=tuple(said["unattended"]),
        version_command=tuple(said["version_command"]),
        state=said["state"],
        env=dict(env),
        services=tuple(said["services"]),
    )


def _faults(value: Any, shape: Shape, where: str) -> Iterator[str]:  # noqa: ANN401 - whatever the file holds
    name = where.removeprefix(".") or "the manifest"
    if isinstance(shape, re.Pattern):
        if not (isinstance(value, str) and shape.fullmatch(value)):
            yield f"`{name}` is {value!r}, which does not match {shape.pattern}"
    elif isinstance(shape, list):
        if not (isinstance(value, list) and value):
            yield f"`{name}` must be a list of at least one"
            return
        for number, item in enumerate(value):
            yield from _faults(item, shape[0], f"{where}.{number}")
    elif isinstance(value, dict):
        yield from (f"unknown key `{key}` in {name}" for key in value if key not in shape)
        for key, inner in shape.items():
            if key in value:
                yield from _faults(value[key], inner, f"{where}.{key}")
            else:
                yield f"`{key}` is missing in {name}"
    else:
        yield f"`{name}` must be a mapping"


def _invalid_names(env: Any) -> Iterator[str]:  # noqa: ANN401 - whatever the file holds
    for name in env if isinstance(env, dict) else ():
        if not (isinstance(name, str) and VARIABLE.fullmatch(name)):
            yield f"`env` has the name {name!r}, which is not a valid variable name"
