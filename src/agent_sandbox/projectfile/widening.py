"""List what a project file asks for that another one did not. A key that only takes away is not listed."""

import shlex
from collections.abc import Iterator

from agent_sandbox.projectfile.beside import BesideSpec
from agent_sandbox.projectfile.paths import is_pinned
from agent_sandbox.projectfile.spec import ProjectSpec
from agent_sandbox.stack.engine import BUILD_KEY
from agent_sandbox.stack.limits import DEFAULT, LIMITS, limit_texts, limits

# What runs in a service's container, and so what answers the agent.
RUN = ("user", "entrypoint", "command", "environment", "volumes", "healthcheck", "shm_size")


def widens(now: ProjectSpec, before: ProjectSpec) -> tuple[str, ...]:
    """Return one line for each key that gives the agent more, or runs something else."""
    return (
        *_agents(now, before),
        *_image(now, before),
        *_places(now, before),
        *_servers(now, before),
        *_ports(now, before),
        *_limits(now, before),
        *_beside(now, before),
    )


def _agents(now: ProjectSpec, before: ProjectSpec) -> Iterator[str]:
    added = [name for name in now.agents or () if name not in (before.agents or ())]
    if added:
        yield f"agents: {', '.join(added)}"


def _image(now: ProjectSpec, before: ProjectSpec) -> Iterator[str]:
    """Yield what runs as root while the image is built: other versions count too."""
    for name, version in now.agent_versions.items():
        if before.agent_versions.get(name) != version:
            yield f"agent_versions: {name} {version}, from npm"
    if now.base_image and now.base_image != before.base_image:
        yield f"base_image: builds the image on {now.base_image}"
    lists = {
        "packages: Debian's": (now.packages, before.packages),
        "tools: from npm": (now.tools.npm, before.tools.npm),
        "tools: from PyPI": (now.tools.pip, before.tools.pip),
    }
    for what, (names, had) in lists.items():
        if added := [name for name in names if name not in had]:
            yield f"{what} {', '.join(added)}"
    if now.build_file and now.build_file != before.build_file:
        yield f"{BUILD_KEY}: builds the image with {now.build_file}, which follows"
    if now.setup and now.setup != before.setup:
        yield f"setup: runs {now.setup} in each new container; its text follows"


def _places(now: ProjectSpec, before: ProjectSpec) -> Iterator[str]:
    for mount in now.mounts:
        if mount not in before.mounts:
            yield f"mounts: {mount.path}{', read-only' if mount.read_only else ', which the agent can write'}"
    for path in before.mask:
        if path not in now.mask:
            yield f"mask: no longer hides {path}"
    for name, value in now.environment.items():
        if before.environment.get(name) != value:
            yield f"environment: {name}={value}"


def _servers(now: ProjectSpec, before: ProjectSpec) -> Iterator[str]:
    """Yield what the agents start or connect to by themselves."""
    if now.browser and not before.browser:
        yield "browser: installs Chromium, which the agents control"
    for name, spec in now.mcp.items():
        if before.mcp.get(name) != spec:
            one = spec.server(name)
            variables = [f"{key}={value}" for key, value in one.env.items()]
            what = f"connects to {one.url}" if one.url else f"starts {shlex.join((*variables, *one.command))}"
            yield f"mcp: {name} {what}"


def _ports(now: ProjectSpec, before: ProjectSpec) -> Iterator[str]:
    for here, inside in now.ports:
        if (here, inside) not in before.ports:
            yield f"ports: opens port {here} of this machine for port {inside} of the sandbox, during run and shell"


def _limits(now: ProjectSpec, before: ProjectSpec) -> Iterator[str]:
    more, had = limits(now.limits.texts), limits(before.limits.texts)
    for name in LIMITS:
        if getattr(more, name) > getattr(had, name):
            is_, was, default = (limit_texts(one).get(name, "none") for one in (more, had, DEFAULT))
            yield f"limits: {name} {is_}, before {was}; the default is {default}"


def _beside(now: ProjectSpec, before: ProjectSpec) -> Iterator[str]:
    """Yield one line for each service that is new, runs something else, or reaches or may use more."""
    for name, service in now.beside.items():
        yield from (f"beside: {name} {line}" for line in _service(service, before.beside.get(name)))


def _service(now: BesideSpec, before: BesideSpec | None) -> Iterator[str]:
    if before is None or (now.image, now.build) != (before.image, before.build):
        yield f"is built with {now.build.file}, which follows" if now.build else _pulled(now.image or "")
    if opened := [str(port) for port in now.expose if before is None or port not in before.expose]:
        yield f"is reached by the agent on port {', '.join(opened)}"
    if added := [name for name in now.links if before is None or name not in before.links]:
        yield f"reaches {', '.join(added)}"
    before = before or BesideSpec.model_construct()
    if changed := [key for key in RUN if getattr(now, key) != getattr(before, key)]:
        yield f"runs with its own {', '.join(changed)}"
    for key in LIMITS:
        if getattr(now.limits, key) > getattr(before.limits, key):
            more, had = (LIMITS[key].shown(getattr(one.limits, key)) for one in (now, before))
            yield f"may use {key} {more} instead of {had}"


def _pulled(image: str) -> str:
    return f"runs {image}, pulled from its registry" + ("" if is_pinned(image) else "; without a digest, it can change")
