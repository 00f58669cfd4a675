"""Execute a plan: the only place where a stack is built, started, stopped and removed."""

import shlex
from collections.abc import Callable, Iterable

from agent_sandbox.backends.plan import BuildImage, HandOver, Plan, RemoveImages, RunCommand
from agent_sandbox.backends.verbs import Freshness
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.compose.build_faults import build_problem
from agent_sandbox.runtime.compose.build_log import BuildLog, expected_steps
from agent_sandbox.runtime.compose.compose_log import told
from agent_sandbox.runtime.compose.engine import ask, labels_of, needs_docker
from agent_sandbox.runtime.compose.faults import problem_of
from agent_sandbox.runtime.compose.tarball import tarball
from agent_sandbox.runtime.events import Finished, Progressed, Started, Tell, Unneeded, ignore
from agent_sandbox.runtime.host import process

type Explain = Callable[[RunCommand, str], Iterable[Problem]]


def said_by_docker(step: RunCommand, said: str) -> Iterable[Problem]:
    """Explain a failed command from its output."""
    return [problem_of(said, doing=step.purpose)]


def act(plan: Plan, *, tell: Tell = ignore, explain: Explain = said_by_docker) -> None:
    """Execute the steps in order; raise the UserError that `explain` makes of the first failure."""
    current = _current(plan)
    built = False
    for step in plan:
        match step:
            case BuildImage() if step.name in current:
                tell(Unneeded(name=step.name))
            case BuildImage():
                _build(step, tell)
                built = True
            case RemoveImages() if built or not step.once_built:
                ask(*step.argv[1:])  # an image that cannot be removed is in use, which is fine
            case RemoveImages():
                pass
            case RunCommand():
                _run(step, tell, explain)
            case HandOver():
                with needs_docker():
                    process.become(step.argv, cwd=step.cwd)


def _current(plan: Plan) -> set[str]:
    """Return the images that exist and were built from the same files, so need no build."""
    wanted = {s.name: s.labels for s in plan if isinstance(s, BuildImage) and s.freshness is Freshness.OUTDATED}
    labels = labels_of(tuple(wanted)) if wanted else {}
    return {name for name, found in labels.items() if wanted[name].items() <= found.items()}


def _build(step: BuildImage, tell: Tell) -> None:
    purpose, log = f"building {step.name}", BuildLog()
    tell(Started(purpose=purpose, total=expected_steps(step.context["Dockerfile"].decode(), step.target)))

    def on_line(line: str) -> None:
        if log.feed(line):
            tell(Progressed(done=log.done, doing=log.doing))

    with needs_docker():
        done = process.follow(step.argv, on_line=on_line, stdin=tarball(step.context), environment=step.environment)
    if done.code != 0:
        raise UserError([build_problem(step.name, done.out)])
    tell(Finished(purpose=purpose))


def _run(step: RunCommand, tell: Tell, explain: Explain) -> None:
    tell(Started(purpose=step.purpose))

    def on_line(line: str) -> None:
        if words := told(line, step.project):
            tell(Progressed(done=0, doing=words))

    with needs_docker():
        done = process.follow(step.argv, cwd=step.cwd, on_line=on_line)
    if done.code != 0:
        raise UserError(explain(step, done.out))
    tell(Finished(purpose=step.purpose))


def hand_on(plan: Plan, *, on_line: Callable[[str], None]) -> None:
    """Run the commands of a plan and pass each line of output to `on_line`."""
    for step in plan:
        with needs_docker():
            done = process.follow(step.argv, on_line=on_line, cwd=step.cwd if isinstance(step, RunCommand) else None)
        if done.code != 0:
            raise UserError([problem_of(done.out, doing=shlex.join(step.argv))])
