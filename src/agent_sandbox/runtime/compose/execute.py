"""Execute a plan: the only place where a stack is built, started, stopped and removed."""

import shlex
from collections.abc import Callable

from agent_sandbox.backends.plan import BuildImage, HandOver, Plan, RemoveImages, RunCommand
from agent_sandbox.backends.verbs import Freshness
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.compose.build_faults import build_problem
from agent_sandbox.runtime.compose.build_log import BuildLog, expected_steps
from agent_sandbox.runtime.compose.compose_log import shown_text
from agent_sandbox.runtime.compose.engine import Engine
from agent_sandbox.runtime.compose.tarball import tarball
from agent_sandbox.runtime.driver.protocol import Explain
from agent_sandbox.runtime.events import Finished, Progressed, Started, Tell, Unneeded, ignore
from agent_sandbox.runtime.host import attached, process


def act(engine: Engine, plan: Plan, *, tell: Tell = ignore, explain: Explain | None = None) -> None:
    """Execute the steps in order; raise the UserError that `explain` makes of the first failure."""
    current = _current(engine, plan)
    built = False
    for step in plan:
        match step:
            case BuildImage() if step.name in current:
                tell(Unneeded(name=step.name))
            case BuildImage():
                _build(engine, step, tell)
                built = True
            case RemoveImages() if built or not step.once_built:
                engine.ask(*step.argv[1:])  # an image that cannot be removed is in use, which is fine
            case RemoveImages():
                pass
            case RunCommand():
                _run(engine, step, tell, explain)
            case HandOver(pass_signal=()):
                with engine.required():
                    process.become(step.argv, cwd=step.cwd)
            case HandOver():
                with engine.required():
                    code = attached.run_attached(step.argv, cwd=step.cwd, pass_signal=step.pass_signal)
                if code:
                    raise SystemExit(code)


def _current(engine: Engine, plan: Plan) -> set[str]:
    """Return the images that exist and were built from the same files, so need no build."""
    wanted = {s.name: s.labels for s in plan if isinstance(s, BuildImage) and s.freshness is Freshness.OUTDATED}
    labels = engine.labels_of(tuple(wanted)) if wanted else {}
    return {name for name, found in labels.items() if wanted[name].items() <= found.items()}


def _build(engine: Engine, step: BuildImage, tell: Tell) -> None:
    purpose, log = f"building {step.name}", BuildLog()
    tell(Started(purpose=purpose, total=expected_steps(step.context["Dockerfile"].decode(), step.target)))

    def on_line(line: str) -> None:
        if log.feed(line):
            tell(Progressed(done=log.done, doing=log.doing))

    with engine.required():
        done = process.follow(step.argv, on_line=on_line, stdin=tarball(step.context), environment=step.environment)
    if done.code != 0:
        raise UserError([build_problem(step.name, done.out)])
    tell(Finished(purpose=purpose))


def _run(engine: Engine, step: RunCommand, tell: Tell, explain: Explain | None) -> None:
    tell(Started(purpose=step.purpose))

    def on_line(line: str) -> None:
        if words := shown_text(line, step.project):
            tell(Progressed(done=0, doing=words))

    with engine.required():
        done = process.follow(step.argv, cwd=step.cwd, on_line=on_line)
    if done.code != 0:
        raise UserError(explain(step, done.out) if explain else [engine.problem(done.out, doing=step.purpose)])
    tell(Finished(purpose=step.purpose))


def hand_on(engine: Engine, plan: Plan, *, on_line: Callable[[str], None]) -> None:
    """Run the commands of a plan and pass each line of output to `on_line`."""
    for step in plan:
        with engine.required():
            done = process.follow(step.argv, on_line=on_line, cwd=step.cwd if isinstance(step, RunCommand) else None)
        if done.code != 0:
            raise UserError([engine.problem(done.out, doing=shlex.join(step.argv))])
