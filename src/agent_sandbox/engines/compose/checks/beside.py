"""Check the images of the services beside the sandbox: that they exist, cannot change, and need no root."""

from collections.abc import Iterator

from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.engine import MISSING, json_lines
from agent_sandbox.engines.result import CheckResult, ok, warn
from agent_sandbox.images import OURS
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import read_facts
from agent_sandbox.project.project import Project
from agent_sandbox.projectfile.paths import is_pinned
from agent_sandbox.stack.recorded import ServiceBeside

FORMAT = '{"user": {{json .Config.User}}, "digests": {{json .RepoDigests}}}'
ROOT = {"", "root", "0"}


def beside(host: EngineHost, project: Project) -> Iterator[CheckResult]:
    """Yield a warning for each image that is missing, not pinned or starts as root; nothing without services."""
    services = read_facts(project.root).beside
    warnings = [result for name, one in services.items() for result in _about(host, name, one)]
    yield from warnings
    if services and not warnings:
        yield ok("beside", f"{', '.join(services)}: pinned or built here, and not root")


def _about(host: EngineHost, name: str, service: ServiceBeside) -> Iterator[CheckResult]:
    image = service.image
    done = host.engine.ask("image", "inspect", "--format", FORMAT, "--", image)
    if done.code != 0:
        if not MISSING.search(done.err):
            raise UserError([host.engine.problem(done.err, doing="looking for the images")])
        yield warn("beside", f"{name}: {image} is not on this machine yet", "agent-sandbox up pulls or builds it")
        return
    found = next(json_lines(done.out), {})
    user = service.user or str(found.get("user") or "")
    if user.partition(":")[0] in ROOT:
        hint = f"name the user it runs as with `user` under `beside: {name}`"
        yield warn("beside", f"{name}: {image} starts as root, which has no capabilities there", hint)
    if not is_pinned(image) and not image.startswith(OURS):
        digest = next((str(one).partition("@")[2] for one in found.get("digests") or ()), "")
        hint = f"write `image: {image}@{digest}`" if digest else "name an image with a digest"
        yield warn("beside", f"{name}: {image} can change whenever it is pulled again", hint)
