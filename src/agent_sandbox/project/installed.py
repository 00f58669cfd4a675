"""Find a project's stack from the stack file that `init` wrote."""

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from agent_sandbox.host.files import read_text
from agent_sandbox.images import OURS, Image, base_name, images_for, project_images
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.clone_record import clone_named
from agent_sandbox.project.dotenv import stack_files
from agent_sandbox.project.project import Project
from agent_sandbox.project.project_file import (
    additions_in,
    base_image_of,
    beside_images_in,
    made_of,
    project_files,
    setup_of,
)
from agent_sandbox.project.record import facts_said, known, record_files, recorded
from agent_sandbox.project.render.paths import PROJECT_FILE, RECORD, STACK
from agent_sandbox.project.root import STACK_FILE, find_root, has_files, lacks_clone_files
from agent_sandbox.project.trust_store import Store, open_store
from agent_sandbox.stack.engine import COMMAND
from agent_sandbox.stack.naming import stack_name
from agent_sandbox.stack.recorded import Facts


def open_project(path: Path | None, *, cwd: Path) -> Project:
    """Return the project at `path`, or the one that contains `cwd`; raise UserError for another directory's stack.

    `path` may also be the name of a trusted stack, as `agent-sandbox ls` prints it, or of a clone of the project that
    contains `cwd`, if no such file exists. For a trusted project, its stack files are the trusted copies. Otherwise it
    has none, and running containers are found by the project's name.
    """
    store = open_store(os.environ)
    root = _require_stack(named_root(path, store, cwd=cwd) or find_root(path, cwd=cwd), cwd)
    trusted = store.load(root)
    if trusted:
        return parse_project(root, trusted.files, files=store.copies(trusted))
    project = read_project(root)
    require_own(project)
    return replace(project, files=())


def trusted_projects(store: Store) -> dict[str, Project]:
    """Return the project of each stack that the user trusted, by the stack's name."""
    return {project.name: project for project in _trusted(store)}


def _trusted(store: Store) -> Iterator[Project]:
    for standing in store:
        with suppress(UserError):  # a broken record is reported where its project is opened
            yield parse_project(standing.root, standing.files, files=store.copies(standing))


def named_root(path: Path | None, store: Store, *, cwd: Path) -> Path | None:
    """Return the directory of the trusted stack or of the project's clone with this name, or None."""
    if path is None or len(path.parts) != 1 or os.path.lexists(path):
        return None
    return root_named(path.name, store, cwd=cwd)


def root_named(name: str, store: Store, *, cwd: Path) -> Path | None:
    """Return the directory of the clone with this name of the project that contains `cwd`, or of the trusted stack."""
    here = find_root(None, cwd=cwd)
    if here and (clone := clone_named(here, name, os.environ)):
        return clone.root
    found = trusted_projects(store).get(name)
    return found.root if found else None


def is_own(project: Project) -> bool:
    """Return whether the stack was made for this directory; a copied project names its original's containers."""
    return is_name_of(project.name, project.root.resolve())


def is_name_of(name: str, root: Path) -> bool:
    """Return whether a stack with this name was made for this directory."""
    return name.endswith(stack_name("", str(root)).removeprefix("project"))


def require_own(project: Project) -> None:
    """Raise UserError if the stack belongs to another directory."""
    if not is_own(project):
        what = f"the stack {project.name} belongs to another directory: this project was moved, copied or cloned"
        removal = f"; `{removal_of(project.name)}` removes the one of {gone}" if (gone := _gone(project)) else ""
        hint = f"{project.init} makes a new stack for this directory{removal}"
        raise UserError([Problem(where=str(project.root / STACK_FILE), what=what, hint=hint)])


def removal_of(name: str) -> str:
    """Return the command that removes a stack that no directory has any more, with its volumes.

    It starts from `/`, because `.env` would point it to the new stack's file.
    """
    return f"cd / && {COMMAND} --project-name {shlex.quote(name)} down --volumes"


def _gone(project: Project) -> Path | None:
    """Return the directory that the user trusted with this stack, if it no longer exists: the project was moved."""
    for trusted in open_store(os.environ):
        record = known(trusted.files)
        if record and record.name == project.name and not trusted.root.exists():
            return trusted.root
    return None


def require_outermost(folder: Path) -> None:
    """Raise UserError if a directory above already has a stack."""
    root = find_root(None, cwd=folder)
    if root is not None and root != folder:
        what = f"this directory is in {root}, which already has a stack"
        hint = f"--path {shlex.quote(str(root))} uses that one; --path . makes another one here"
        raise UserError([Problem(where=str(folder), what=what, hint=hint)])


def find_project(path: Path | None, *, cwd: Path) -> Project:
    """Return the project at `path`, or the one that contains `cwd`, from its current files, whatever its stack."""
    return read_project(
        _require_stack(named_root(path, open_store(os.environ), cwd=cwd) or find_root(path, cwd=cwd), cwd)
    )


def has_stack(path: Path | None, *, cwd: Path) -> bool:
    """Return whether there is a stack at `path` or with this name, or in a directory that contains `cwd`."""
    root = named_root(path, open_store(os.environ), cwd=cwd) or find_root(path, cwd=cwd)
    return root is not None and has_files(root)


def init_for(root: Path) -> str:
    """Return how to make the stack of a project file, empty if there is none."""
    if not os.path.lexists(root / PROJECT_FILE):
        return ""
    return f"agent-sandbox init makes it from {PROJECT_FILE}; if that lists no agents, agent-sandbox init AGENT"


def _require_stack(root: Path | None, cwd: Path) -> Path:
    if root is None or not os.path.exists(root / STACK_FILE):
        from agent_sandbox.host.agents import known_agents  # noqa: PLC0415 - only for this message

        known = ", ".join(known_agents())
        hint = f"agent-sandbox init AGENT makes one, where AGENT is one of: {known}"
        if root is not None and lacks_clone_files(root):
            hint = "agent-sandbox up makes it for this clone"
        elif hand_written := init_for(root or cwd):
            hint = hand_written
        raise UserError([Problem(where=str(root or cwd), what="no stack in this directory", hint=hint)])
    return root


def read_project(root: Path) -> Project:
    """Return the project as its own files describe it."""
    return parse_project(root, own_files(root) | project_files(root), files=stack_files(root, STACK_FILE))


def own_files(root: Path) -> dict[str, str]:
    """Return the project's stack file and its record, which counts only if it is the one that the user trusts."""
    texts, trusted = record_files(root), open_store(os.environ).load(root)
    if trusted is None or texts.get(RECORD) != trusted.files.get(RECORD):
        texts.pop(RECORD, None)
    return texts


def parse_project(root: Path, texts: Mapping[str, str], *, files: tuple[Path, ...]) -> Project:
    """Return the project that the texts of its files describe; `files` make up its stack."""
    record = recorded(texts, root)
    return Project(
        root=root,
        name=record.name,
        agents=record.agents,
        pins=record.pins,
        settings=record.settings,
        owner=record.owner,
        images=record.facts.images,
        files=files,
        made_of=made_of(texts),
        base_image=base_image_of(texts.get(PROJECT_FILE, "")),
        setup=setup_of(texts.get(PROJECT_FILE, "")),
    )


def read_facts(root: Path) -> Facts:
    """Return what the project's stack gives to its containers: the trusted one, which runs, if there is one."""
    trusted = open_store(os.environ).load(root)
    return facts_said(trusted.files if trusted else {STACK: read_text(root, STACK) or ""}, root)


def own_images(project: Project) -> tuple[str, ...]:
    """Return our images that the project's stack uses, also below others, base images last."""
    images, bases = dict.fromkeys(project.images), (base_name(project.base_image), base_name())
    with suppress(UserError):  # what the project adds can be invalid by now
        images |= dict.fromkeys(_built(project))
    own = (image for image in images if image.startswith(OURS) and image not in bases)
    return tuple(dict.fromkeys((*own, *bases)))


def images_of(project: Project) -> tuple[Image, ...]:
    """Return the images to build for the project; raise UserError if another version made the stack."""
    if foreign := foreign_images(project):
        what = (
            f"the stack was made by another version of agent-sandbox: this one does not build {' and '.join(foreign)}"
        )
        hint = f"{project.init} updates the stack"
        raise UserError([Problem(where=str(project.root / STACK_FILE), what=what, hint=hint)])
    wanted = {*project.images, base_name(project.base_image), *_built(project)}
    return tuple(image for image in _known(project) if image.name in wanted)


def _built(project: Project) -> tuple[str, ...]:
    """Return the image that the agents run in and those that it is built on; none if it is the user's own."""
    _proxy, *names = (image.name for image in _ours(project))
    return tuple(names) if names[-1] in project.images else ()


def foreign_images(project: Project) -> tuple[str, ...]:
    """Return the images in the stack that another version of agent-sandbox builds and this one does not."""
    known = {image.name for image in _known(project)}
    return tuple(image for image in project.images if image.startswith(OURS) and image not in known)


def _known(project: Project) -> tuple[Image, ...]:
    return (*_ours(project), *beside_images_in(project.made_of))


def _ours(project: Project) -> tuple[Image, ...]:
    images = agent_images(project)
    return (*images, *project_images(images[-1], additions_in(project.made_of)))


def agent_images(project: Project) -> tuple[Image, ...]:
    """Return the images of the project's agents in build order; its own build file starts from the last one."""
    from agent_sandbox.host.agents import load_agents  # noqa: PLC0415 - only to build images

    agents, added = load_agents(project.agents, project.pins), additions_in(project.made_of)
    return images_for(agents, project.owner, project.base_image, added)
