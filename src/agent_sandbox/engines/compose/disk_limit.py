"""Check whether the engine enforces a disk limit: one that it would silently ignore is an error."""

from collections.abc import Mapping

from agent_sandbox.bounded_json import read_json
from agent_sandbox.engines.compose.engine import Engine, json_lines
from agent_sandbox.engines.compose.faults import NO_QUOTA, WITHOUT_DISK
from agent_sandbox.problems import Problem, UserError

# An engine with this store accepts the limit of a container, and writes only to its own log that it ignores it.
IGNORES = "io.containerd.snapshotter"
NEW_VOLUMES = "agent-sandbox destroy removes them, with the agent's state, and agent-sandbox up makes new ones"
FILE_SYSTEM = "Backing Filesystem"
VOLUME_FORMAT = '{"name": {{json .Name}}, "options": {{json .Options}}}'


def require_disk_limit(engine: Engine, volumes: Mapping[str, str]) -> None:
    """Raise UserError unless the engine bounds a container and these volumes, each by name with its size."""
    doing = "asking whether disk space can be limited"
    status = engine.answer("info", "--format", "{{json .DriverStatus}}", doing=doing)
    if IGNORES in status:
        what = "this Docker engine cannot limit disk space: its containerd image store ignores the limit of a container"
        raise UserError([Problem(where="limits.disk", what=what, hint=WITHOUT_DISK)])
    # The mount option is not in the answer: without it, the start fails with the engine's own message.
    file_systems = {pair[1] for pair in read_json(status) or () if pair[0] == FILE_SYSTEM}
    if file_systems.difference({"xfs"}):
        raise UserError([Problem(where="limits.disk", what=NO_QUOTA, hint=WITHOUT_DISK)])
    there = engine.answer("volume", "ls", "--format", "{{.Name}}", doing=doing).split()
    names = [name for name in volumes if name in there]
    if not names:
        return
    said = engine.answer("volume", "inspect", "--format", VOLUME_FORMAT, *names, doing=doing)
    sizes = {one["name"]: (one["options"] or {}).get("size") for one in json_lines(said)}
    other = [name for name in names if sizes.get(name) != volumes[name]]
    if other:
        what = f"the volumes exist without this limit: {', '.join(other)}"
        hint = f"{NEW_VOLUMES}; or {WITHOUT_DISK}"
        raise UserError([Problem(where="limits.disk", what=what, hint=hint)])
