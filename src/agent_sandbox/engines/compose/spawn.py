"""The command that runs a program in a container of a stack, or in a temporary one beside it, or prints its output."""

from collections.abc import Iterator, Mapping
from typing import assert_never

from agent_sandbox.engines.compose.engine import Engine
from agent_sandbox.engines.compose.plan import PROJECT_LABEL, ComposePlanner
from agent_sandbox.engines.container import Container
from agent_sandbox.engines.place import Helper, Place, Role, Store
from agent_sandbox.host.command import Command
from agent_sandbox.project.project import Project

# A container that reaches nothing, can change nothing and leaves nothing. The user follows.
ALONE = (
    *("--rm", "--pull", "never", "--network", "none", "--read-only", "--cap-drop", "ALL"),
    *("--security-opt", "no-new-privileges", "--env", "HOME=/nonexistent", "--user"),
)
NOBODY = "65534:65534"
# It may read what an agent wrote. Without `--init`, its program would ignore the signal that ends it.
BOUNDS = ("--init", "--pids-limit", "256", "--tmpfs", "/tmp:size=64m,mode=1777")  # noqa: S108 - a container's
IN_MEMORY = "size=512m,mode=1777"


def spawn(  # noqa: PLR0913 - what a program gets
    engine: Engine,
    planner: ComposePlanner,
    place: Place,
    argv: tuple[str, ...],
    *,
    stdin: bool,
    tty: bool,
    env: Mapping[str, str],
    user: str,
) -> Command:
    """Return the command; see `Driver.spawn`."""
    options = tuple(_options(env, user))
    streams = (*(("--interactive",) if stdin else ()), *(("--tty",) if tty else ()))
    match place:
        case Container():  # a tenth of a second faster than compose, which reads the stack file first
            words = (engine.program, "exec", *streams, *options, place.id, *argv)
            return Command(argv=words, required=engine.required)
        case Helper():
            words = (engine.program, "run", *streams, *_alone(place, argv, env, user))
            return Command(argv=words, cwd=place.project.root, required=engine.required)
        case Role():
            how = ("exec",) if place.runs else ("run", "--rm", "--no-deps")
            words = (*how, *(() if tty else ("-T",)), *options, place.service, *argv)
            return _compose(engine, planner, place.project, *words)
        case _:
            assert_never(place)


def logs(  # noqa: PLR0913 - as above
    engine: Engine,
    planner: ComposePlanner,
    of: Project | Container,
    services: tuple[str, ...],
    *,
    follow: bool,
    tail: int | None,
) -> Command:
    """Return the command that prints output; see `Driver.logs`."""
    which = (*(("--follow",) if follow else ()), *(() if tail is None else ("--tail", str(tail))))
    if isinstance(of, Container):
        return Command(argv=(engine.program, "logs", *which, of.id), required=engine.required)
    return _compose(engine, planner, of, "logs", "--no-color", *which, *services)


def _compose(engine: Engine, planner: ComposePlanner, project: Project, *words: str) -> Command:
    return Command(argv=(*planner.compose_argv(project), *words), cwd=project.root, required=engine.required)


def _options(env: Mapping[str, str], user: str = "") -> Iterator[str]:
    for name, value in env.items():
        yield from ("--env", f"{name}={value}")
    if user:
        yield from ("--user", user)


def _alone(helper: Helper, argv: tuple[str, ...], env: Mapping[str, str], user: str) -> Iterator[str]:
    program, *arguments = argv
    yield from (*ALONE, user or NOBODY, *_options(env))
    if helper.home:
        yield from ("--env", f"HOME={helper.home}", "--tmpfs", f"{helper.home}:{IN_MEMORY}")
    for store in helper.stores:
        yield from ("--mount", _mount(store, helper.project.name))
    yield from (*BOUNDS, "--memory", helper.memory, "--memory-swap", helper.memory)
    if helper.directory:
        yield from ("--workdir", helper.directory)
    yield from ("--entrypoint", program, helper.image, *arguments)


def _mount(store: Store, project: str) -> str:
    """Return the mount of a volume. If one that is written does not exist, it becomes the stack's."""
    how = f"volume-label={PROJECT_LABEL}={project}" if store.writes else "readonly,volume-nocopy"
    return f"type=volume,source={store.volume},target={store.at},{how}"
