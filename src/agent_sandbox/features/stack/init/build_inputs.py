"""The inputs of a build: the agents, and the user's base image and CA."""

import os
from collections.abc import Callable, Collection
from pathlib import Path

from agent_sandbox.engines.verbs import Build, Cache, Freshness
from agent_sandbox.features.policy.layers import company_ca
from agent_sandbox.features.policy.registries import this_machine
from agent_sandbox.features.stack.init.build_registries import machine_registries
from agent_sandbox.host.agents import known_agents, load_agents
from agent_sandbox.images import Image, images_for
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import images_of, read_project
from agent_sandbox.project.owners import owner_of
from agent_sandbox.project.project import Project
from agent_sandbox.project.root import STACK_FILE, find_root, has_files

BEGIN = b"-----BEGIN CERTIFICATE-----"
KEY = b"PRIVATE KEY-----"
BASE_VARIABLE = "AGENT_SANDBOX_BASE_IMAGE"


def images_to_build(
    agents: tuple[str, ...], path: Path | None, *, cwd: Path, opened: Callable[[], Project]
) -> tuple[Image, ...]:
    """Return the images of the named agents, or without names those of the project that `opened` returns."""
    root = find_root(path, cwd=cwd)
    installed = root is not None and has_files(root)
    if not agents and not installed:
        known = ", ".join(known_agents())
        where, what = str(root or cwd), "no stack in this directory, and no agent was named"
        raise UserError(
            [Problem(where=where, what=what, hint=f"agent-sandbox build AGENT, where AGENT is one of: {known}")]
        )
    if not agents:
        return images_of(opened())
    owner = read_project(root).owner if root and os.path.exists(root / STACK_FILE) else owner_of(root or cwd)
    images = (image for agent in agents for image in images_for(load_agents([agent]), owner))
    return tuple({image.name: image for image in images}.values())


def build_of(images: tuple[Image, ...], *, extra_ca: Path | None, anew: bool = False) -> Build:
    """Return the build; `anew` rebuilds everything without the cache. Without `extra_ca`, it trusts the company's.

    Projects that name no base image share one, which only a variable sets: for all of them, not with one command.
    """
    extra_ca = extra_ca or company_ca(os.environ)
    asked = {name for image in images for name in image.registries}
    return Build(
        images=images,
        registries=_registries(asked) if asked else {},
        freshness=Freshness.ALL if anew else Freshness.OUTDATED,
        cache=Cache.IGNORE if anew else Cache.USE,
        base_image=os.environ.get(BASE_VARIABLE, ""),
        extra_ca=checked_ca(extra_ca) if extra_ca else None,
    )


def _registries(asked: Collection[str]) -> dict[str, str]:
    return machine_registries(this_machine(os.environ), asked)


def checked_ca(file: Path) -> Path:
    """Return the file's absolute path; raise UserError unless it contains certificates and no key."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UserError([Problem(where=str(file), what=f"cannot read the extra CA: {error.strerror}")]) from error
    if BEGIN not in content:
        hint = "it must contain `-----BEGIN CERTIFICATE-----`; to convert a DER file: openssl x509 -inform der -in FILE"
        raise UserError([Problem(where=str(file), what="not a PEM certificate", hint=hint)])
    if KEY in content:
        what = "contains a private key, which must not be in a build"
        raise UserError([Problem(where=str(file), what=what, hint="use a file that contains only certificates")])
    return file.absolute()
