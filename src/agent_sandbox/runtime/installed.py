"""Find the stack that a project has, by the file that `init` wrote."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_sandbox.agents.catalogue import load_manifest
from agent_sandbox.backends.project import Project
from agent_sandbox.images import Image, base_name, images_for
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.render.header import Hand, hand_of
from agent_sandbox.resources import data_root
from agent_sandbox.runtime.dotenv import compose_files
from agent_sandbox.runtime.files import read_text
from agent_sandbox.stack.naming import stack_name
from agent_sandbox.stack.workspace import Owner

COMPOSE_FILE = Path(".devcontainer", "docker-compose.yml")
POLICY_FILE = Path(".devcontainer", "policy.yaml")
RECORD = "x-agent-sandbox"
OURS = "agent-sandbox/"
HANDS = {
    Hand.OURS: "is as agent-sandbox wrote it",
    Hand.EDITED: "has been edited since agent-sandbox wrote it",
    Hand.FOREIGN: "was not written by agent-sandbox",
}


def find_upwards(file: Path, start: Path) -> Path | None:
    """Return the nearest directory, from `start` upwards, that holds `file`."""
    return next((folder for folder in (start, *start.parents) if (folder / file).exists()), None)


def open_project(path: Path | None, *, cwd: Path) -> Project:
    """Return the project at `path`, or the one that `cwd` lies in; a stack of another directory's is refused."""
    project = find_project(path, cwd=cwd)
    require_own(project)
    return project


def open_to_run(path: Path | None, *, cwd: Path, edited: bool) -> Project:
    """Return the project as `open_project` does, to run what its compose file says.

    Whoever can write there could have taken every wall out, so it has to be as `init` wrote it, or as the user says.
    """
    project = open_project(path, cwd=cwd)
    if project.hand is not Hand.OURS and not edited:
        what = f"this file {HANDS[project.hand]}: what it says now could open the box"
        hint = f"agent-sandbox init {project.agent} shows the difference; --edited takes it this once"
        raise UserError([Problem(where=str(project.root / COMPOSE_FILE), what=what, hint=hint)])
    return project


def is_own(project: Project) -> bool:
    """Return whether the stack was made for this directory: a copy names the containers of its original."""
    return project.name.endswith(stack_name("", str(project.root.resolve())).removeprefix("project"))


def require_own(project: Project) -> None:
    """Refuse to touch the stack of another directory."""
    if not is_own(project):
        what = f"the stack {project.name} belongs to another directory: this project was moved, copied or cloned"
        hint = f"agent-sandbox init {project.agent} gives it a stack of its own"
        raise UserError([Problem(where=str(project.root / COMPOSE_FILE), what=what, hint=hint)])


def require_outermost(folder: Path) -> None:
    """Refuse a second stack below a project that has one, where nobody has asked for it."""
    root = find_upwards(COMPOSE_FILE, folder)
    if root is not None and root != folder:
        what = f"this lies in {root}, which has a stack already"
        hint = f"--path {shlex.quote(str(root))} means that one, --path . makes another one here"
        raise UserError([Problem(where=str(folder), what=what, hint=hint)])


def find_project(path: Path | None, *, cwd: Path) -> Project:
    """Return the project at `path`, or the one that `cwd` lies in, whoever's its stack is."""
    root = path.absolute() if path else find_upwards(COMPOSE_FILE, cwd)
    if root is None or not (root / COMPOSE_FILE).exists():
        where = str(root or cwd)
        raise UserError(
            [Problem(where=where, what="there is no stack here", hint="agent-sandbox init AGENT makes one")]
        )
    return read_project(root)


def read_project(root: Path) -> Project:
    """Return what the project's own files say of its stack."""
    file = root / COMPOSE_FILE
    text = read_text(root, str(COMPOSE_FILE)) or ""
    document = _document(text, file)
    record = _mapping(document.get(RECORD))
    name, agent, dev = document.get("name"), record.get("agent"), record.get("dev")
    if not (isinstance(name, str) and isinstance(agent, str) and isinstance(dev, str)):
        what = f"this compose file is not agent-sandbox's: it has no `name` or no `{RECORD}`"
        raise UserError([Problem(where=str(file), what=what, hint="agent-sandbox init AGENT --force replaces it")])
    return Project(
        root=root,
        name=name,
        agent=agent,
        owner=_owner(file, dev),
        images=tuple(dict.fromkeys(_images(document))),
        files=compose_files(root, COMPOSE_FILE),
        hand=hand_of(text),
    )


def read_compose(root: Path) -> Mapping[str, Any]:
    """Return the project's compose file as it stands there; nothing where it is no mapping."""
    return _document(read_text(root, str(COMPOSE_FILE)) or "", root / COMPOSE_FILE)


def bound_by(root: Path, service: str) -> frozenset[str]:
    """Return the paths of the host that a service of the project's compose file mounts."""
    said = _mapping(_mapping(read_compose(root).get("services")).get(service)).get("volumes")
    volumes = said if isinstance(said, list) else []
    return frozenset(str(_mapping(volume).get("source", "")).replace("$$", "$") for volume in volumes)


def images_of(project: Project) -> tuple[Image, ...]:
    """Return what has to be built for the project; a stack of another version is a problem, not a surprise."""
    known = images_for(load_manifest(data_root() / "templates", project.agent), project.owner)
    names = {image.name for image in known}
    foreign = [image for image in project.images if image.startswith(OURS) and image not in names]
    if foreign:
        where = str(project.root / COMPOSE_FILE)
        hint = f"agent-sandbox init {project.agent} brings the stack up to date"
        what = "this agent-sandbox does not make the image {}: the stack is of another version"
        raise UserError(Problem(where=where, what=what.format(image), hint=hint) for image in foreign)
    return tuple(image for image in known if image.name in (*project.images, base_name()))


def _document(text: str, file: Path) -> Mapping[str, Any]:
    from agent_sandbox.render.foreign import load_foreign  # noqa: PLC0415 - only commands about a stack need YAML

    return _mapping(load_foreign(text, file=str(file)))


def _mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - whatever stands in a user's file
    return value if isinstance(value, dict) else {}


def _images(document: Mapping[str, Any]) -> Iterator[str]:
    for service in _mapping(document.get("services")).values():
        image = _mapping(service).get("image")
        if isinstance(image, str):
            yield image


def _owner(file: Path, dev: str) -> Owner:
    uid, _, gid = dev.partition(":")
    if not (uid.isascii() and uid.isdigit() and gid.isascii() and gid.isdigit()):
        what = f"`{RECORD}.dev` is `{dev}`; it has to be two numbers, `UID:GID`"
        raise UserError([Problem(where=str(file), what=what, hint="agent-sandbox init AGENT --force replaces it")])
    return Owner(uid=int(uid), gid=int(gid))
