"""The driver for the engine that is controlled by `docker`."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from agent_sandbox.engines.compose import intruders
from agent_sandbox.engines.compose.containers import containers, leftovers, stacks
from agent_sandbox.engines.compose.engine import DOCKER, Engine
from agent_sandbox.engines.compose.faults import known_fault
from agent_sandbox.engines.compose.plan import ComposePlanner
from agent_sandbox.engines.compose.spawn import logs, spawn
from agent_sandbox.engines.container import Container, Intruders, StackFound, Usage
from agent_sandbox.engines.events import Tell, ignore
from agent_sandbox.engines.place import Place
from agent_sandbox.engines.plan import Plan
from agent_sandbox.engines.protocol import NOTHING, Driver, Explain, Host
from agent_sandbox.host.command import Command
from agent_sandbox.problems import Problem
from agent_sandbox.project.project import Project


class ComposeDriver(Struct, frozen=True, kw_only=True):
    """The driver of one engine; see `Driver` for what each method does."""

    engine: Engine
    planner: ComposePlanner

    def observe(self, project: str, service: str = "") -> tuple[Container, ...]:
        """List them by label; ask for one by its usual name first, which is faster."""
        return containers(self.engine, project, service)

    def stacks(self) -> tuple[StackFound, ...]:
        """List compose projects with our images or volumes."""
        return stacks(self.engine)

    def usage(self, found: Sequence[Container], *, disk: bool = True) -> Usage:
        """Ask for statistics and for the disk that is used."""
        from agent_sandbox.engines.compose.usage import usage  # noqa: PLC0415 - few commands measure

        return usage(self.engine, found, disk=disk)

    def intruders(self, found: Sequence[Container], project: str) -> Intruders:
        """Ask for the networks' members and for containers in the stack's namespaces."""
        return Intruders(
            connected=intruders.foreign_networks(self.engine, found, project),
            strangers=intruders.strangers(self.engine, found, project),
            sharing=intruders.sharers(self.engine, found),
        )

    def leftovers(self, project: str) -> dict[str, tuple[str, ...]]:
        """List containers, networks and volumes by the project's label."""
        return leftovers(self.engine, project)

    def own_images(self, *, leaving: Collection[str] = ()) -> dict[str, int | None]:
        """List images by our name and label."""
        from agent_sandbox.engines.compose.images import own_images  # noqa: PLC0415 - only `prune`

        return own_images(self.engine, leaving=leaving)

    def images(self, names: Iterable[str]) -> dict[str, frozenset[str]]:
        """Inspect our images all at once, and others one by one, because two of their names may mean the same image."""
        from agent_sandbox.engines.compose.images import images  # noqa: PLC0415 - as above

        return images(self.engine, names)

    def download_size(self, image: str) -> int | None:
        """Ask the registry for the manifest."""
        from agent_sandbox.engines.compose.images import download_size  # noqa: PLC0415 - as above

        return download_size(self.engine, image)

    def logs(self, of: Project | Container, *services: str, follow: bool = False, tail: int | None = None) -> Command:
        """Use the log of a container, or those that compose puts together."""
        return logs(self.engine, self.planner, of, services, follow=follow, tail=tail)

    def execute(self, plan: Plan, *, tell: Tell = ignore, explain: Explain | None = None) -> None:
        """Run the plan's commands, except builds that are not needed."""
        from agent_sandbox.engines.compose.execute import act  # noqa: PLC0415 - questions need none of it

        act(self.engine, plan, tell=tell, explain=explain)

    def spawn(
        self,
        place: Place,
        *argv: str,
        stdin: bool = False,
        tty: bool = False,
        env: Mapping[str, str] = NOTHING,
        user: str = "",
    ) -> Command:
        """Use `exec` in a running container, and `run` for a temporary one."""
        return spawn(self.engine, self.planner, place, argv, stdin=stdin, tty=tty, env=env, user=user)

    def would_end(self, project: Project, agent: Container, *, build: Callable[[], None]) -> tuple[str, ...]:
        """Ask for the container's processes, and let compose try."""
        from agent_sandbox.engines.compose.ending import would_end  # noqa: PLC0415 - rarely needed

        return would_end(self.engine, self.planner, project, agent, build=build)

    def reprotect(self, agent: Container, digests: Mapping[str, str]) -> str:
        """Run a helper container in the agent's namespaces."""
        from agent_sandbox.engines.compose.reprotect import reprotect  # noqa: PLC0415 - rarely needed

        return reprotect(self.engine, agent, digests)

    def explain(self, said: str, *, doing: str, otherwise: Callable[[], Problem | None] = lambda: None) -> Problem:
        """Look the output up in the table of faults."""
        return known_fault(said) or otherwise() or self.engine.problem(said, doing=doing)

    def host(self) -> Host:
        """Return the engine's machine; only the doctor needs its checks."""
        from agent_sandbox.engines.compose.checks.host import EngineHost  # noqa: PLC0415 - few commands check

        return EngineHost(engine=self.engine)


DRIVER: Driver = ComposeDriver(engine=DOCKER, planner=ComposePlanner(program=DOCKER.program))
