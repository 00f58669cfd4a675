"""Execute a plan: the only place where a stack is built, started, stopped and removed."""

import io
import os
import re
from collections.abc import Mapping, Sequence

from agent_sandbox.engines.compose.containers import containers
from agent_sandbox.engines.compose.engine import Engine
from agent_sandbox.engines.compose.plan import BASE_LABEL
from agent_sandbox.engines.events import Finished, Progressed, Started, Tell, Unneeded, ignore
from agent_sandbox.engines.plan import BuildImage, Plan, RemoveImages, RunCommand
from agent_sandbox.engines.protocol import Explain
from agent_sandbox.engines.verbs import Freshness
from agent_sandbox.filetree import FileTree
from agent_sandbox.host import process
from agent_sandbox.problems import UserError

# Earlier versions label only images on a base of the machine.
NO_BASE = {BASE_LABEL: ""}
LINE = re.compile(r"(?P<kind>Container|Network|Volume) +(?P<name>\S+) +(?P<state>[A-Z]\w+)")
TOLD = {
    "Recreated": "recreated",
    "Started": "started",
    "Healthy": "ready",
    "Unhealthy": "unhealthy",
    "Error": "failed",
    "Removed": "removed",
}
# Announcements and totals, without names of the project.
TALK = re.compile(r"\s*(Going to remove |Deleted Volumes:|Total reclaimed space: )")


def act(engine: Engine, plan: Plan, *, tell: Tell = ignore, explain: Explain | None = None) -> None:
    """Execute the steps in order; raise the UserError that `explain` makes of the first failure."""
    existing = _existing(engine, plan)
    built = False
    for step in plan:
        match step:
            case BuildImage() if _is_current(step, existing.get(step.name)):
                tell(Unneeded(name=step.name))
            case BuildImage():
                _build(engine, step, tell, was=existing.get(step.name, {}))
                built = True
            case RemoveImages() if built or not step.once_built:
                engine.ask(*step.argv[1:])  # an image that cannot be removed is in use, which is fine
            case RemoveImages():
                pass
            case RunCommand():
                _run(engine, step, tell, explain)


def _existing(engine: Engine, plan: Plan) -> Mapping[str, Mapping[str, str]]:
    """Return the labels of the images that exist, of those that the plan builds only if they are outdated."""
    names = tuple(s.name for s in plan if isinstance(s, BuildImage) and s.freshness is Freshness.OUTDATED)
    return engine.labels_of(names) if names else {}


def _is_current(step: BuildImage, labels: Mapping[str, str] | None) -> bool:
    """Return whether an image was built from the same files, on the same base."""
    return labels is not None and step.labels.items() <= {**NO_BASE, **labels}.items()


def _build(engine: Engine, step: BuildImage, tell: Tell, *, was: Mapping[str, str]) -> None:
    from agent_sandbox.engines.compose.build_faults import build_problem  # noqa: PLC0415 - most runs build nothing
    from agent_sandbox.engines.compose.build_log import BuildLog, expected_steps  # noqa: PLC0415 - as above

    purpose, log = f"building {step.name}{_on(step.labels.get(BASE_LABEL, ''), was.get(BASE_LABEL, ''))}", BuildLog()
    tell(Started(purpose=purpose, total=expected_steps(step.context["Dockerfile"].decode(), step.target)))

    def on_line(line: str) -> None:
        if log.feed(line):
            tell(Progressed(done=log.done, doing=log.doing))

    with engine.required():
        done = process.follow(step.argv, on_line=on_line, stdin=tarball(step.context), environment=step.environment)
    if done.code != 0:
        raise UserError([build_problem(step.name, done.out, os.environ)])
    tell(Finished(purpose=purpose))


def _on(base: str, was: str) -> str:
    """Return what to say about the machine's base image, which all projects without one of their own share."""
    if base == was:
        return f" on {base}" if base else ""
    return f" on {base or 'plain Debian'}, not {was or 'plain Debian'} as before" if was else f" on {base}"


def _run(engine: Engine, step: RunCommand, tell: Tell, explain: Explain | None) -> None:
    tell(Started(purpose=step.purpose))

    def on_line(line: str) -> None:
        if words := shown_text(line, step.project):
            tell(Progressed(done=0, doing=words))

    def run(argv: Sequence[str]) -> process.Finished:
        with engine.required():
            return process.follow(argv, cwd=step.cwd, on_line=on_line)

    if step.unless_ready and run(step.unless_ready).code == 0 and _is_ready(engine, step.project):
        tell(Finished(purpose=step.purpose))
        tell(Unneeded(name=step.project))
        return
    done = run(step.argv)
    if done.code != 0:
        raise UserError(explain(step, done.out) if explain else [engine.problem(done.out, doing=step.purpose)])
    tell(Finished(purpose=step.purpose))


def _is_ready(engine: Engine, project: str) -> bool:
    found = containers(engine, project)
    return bool(found) and all(one.ready for one in found)


def shown_text(line: str, project: str) -> str | None:
    """Return a line's progress in a few words, or None if it is not of interest.

    >>> shown_text(" Container app-1-proxy-1  Healthy", "app-1")
    'proxy ready'
    """
    match = LINE.search(line)
    if not match:
        volume = line.strip().removeprefix(f"{project}_")
        if volume != line.strip():  # `docker volume prune` prints only the names of removed volumes
            return f"{volume} removed"
        return None if TALK.match(line) else " ".join(line.split()) or None
    if match["state"] not in TOLD or (match["kind"] != "Container" and match["state"] != "Removed"):
        return None
    name = match["name"].strip('"').removeprefix(f"{project}-").removeprefix(f"{project}_").removesuffix("-1")
    return f"{name} {TOLD[match['state']]}"


def tarball(tree: FileTree) -> bytes:
    """Return an uncompressed tar: sorted paths, no owner, no time, only scripts executable.

    A wheel stores no file modes, so scripts are recognised by `#!`.
    """
    import tarfile  # noqa: PLC0415 - most runs build nothing

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(tree):
            entry = tarfile.TarInfo(path)
            entry.size = len(tree[path])
            entry.mode = 0o755 if tree[path].startswith(b"#!") else 0o644
            archive.addfile(entry, io.BytesIO(tree[path]))
    return buffer.getvalue()
