"""List what the services of a project file may do that those of another one may not."""

from collections.abc import Iterator, Mapping

from agent_sandbox.projectfile.beside import BesideSpec
from agent_sandbox.projectfile.paths import is_pinned
from agent_sandbox.stack.limits import LIMITS

# What runs in a service's container, and so what answers the agent.
RUN = ("user", "entrypoint", "command", "environment", "volumes", "healthcheck", "shm_size")


def besides_widen(now: Mapping[str, BesideSpec], before: Mapping[str, BesideSpec]) -> Iterator[str]:
    """Yield one line for each service that is new, runs something else, or reaches or may use more."""
    for name, service in now.items():
        yield from (f"beside: {name} {line}" for line in _service(service, before.get(name)))


def _service(now: BesideSpec, before: BesideSpec | None) -> Iterator[str]:
    if before is None or (now.image, now.build) != (before.image, before.build):
        yield _image(now)
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


def _image(service: BesideSpec) -> str:
    if service.build:
        return f"is built with {service.build.file}, which follows"
    image = service.image or ""
    return f"runs {image}, pulled from its registry" + ("" if is_pinned(image) else "; without a digest, it can change")
