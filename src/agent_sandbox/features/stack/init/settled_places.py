"""Apply the mounts, masks, variables, setup script and MCP servers of a project file to the facts about a project."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from agent_sandbox.agents.together import Agents
from agent_sandbox.features.protect.protected import is_there
from agent_sandbox.features.stack.init.project_file import Settled
from agent_sandbox.host.files import open_folder, problem_of
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.render.paths import PROJECT_FILE
from agent_sandbox.project.trust_store import open_store
from agent_sandbox.stack.services.agent import reserved_variables
from agent_sandbox.stack.workspace import Mask, Workspace


def with_own_places(
    workspace: Workspace, chosen: Settled, agents: Agents, environ: Mapping[str, str], *, project: Path
) -> Workspace:
    """Return the facts with what the project file says; raise UserError with every problem.

    Paths are relative to `project`, also in a clone of it.
    """
    spec = chosen.spec
    if spec is None:
        return workspace
    workspace = replace(workspace, mcp=spec.servers, beside=chosen.beside, mtu=spec.mtu or 0)
    if not (spec.mounts or spec.mask or spec.environment or spec.setup):
        return workspace
    from agent_sandbox.features.stack.init.own_places import own_masks, own_mounts, parents_of  # noqa: PLC0415 - few need it
    from agent_sandbox.projectfile.checks import place_in  # noqa: PLC0415 - few need it

    at = partial(place_in, chosen.text or "", str(Path(workspace.path) / PROJECT_FILE))
    _require_free(spec.environment, agents, at)
    others = [standing.root for standing in open_store(environ) if standing.root != project] if spec.mounts else []
    masks = own_masks(project, spec.mask, workspace.protected, at=partial(at, "mask"))
    hidden = {mask.path for mask in masks}
    walls = [one for one in workspace.protected if one.path not in hidden]
    mounts = [(one.path, one.read_only) for one in spec.mounts]
    return replace(
        workspace,
        mounts=own_mounts(project, mounts, environ, others=others, at=partial(at, "mounts")),
        masks=masks,
        protected=(() if workspace.in_volume else (*walls, *parents_of(masks, walls))),
        environment=spec.environment,
        setup=spec.setup or "",
    )


def _require_free(variables: Mapping[str, str], agents: Agents, at: Callable[..., str]) -> None:
    taken = [name for name in variables if name.lower() in reserved_variables(agents)]
    if taken:
        what, hint = "`environment`: the sandbox sets {}", "use another name"
        raise UserError([Problem(where=at("environment", one), what=what.format(one), hint=hint) for one in taken])


def make_masked(project: Path, masks: Iterable[Mask]) -> None:
    """Create what does not exist yet: a mount needs a place, and what appears there later must be hidden too."""
    for mask in masks:
        if is_there(project / mask.path):
            continue
        try:
            _make(project, mask)
        except OSError as error:
            raise UserError([problem_of(str(project / mask.path), error)]) from error


def _make(project: Path, mask: Mask) -> None:
    """Create an empty file or directory; an agent that runs may have put a link in place of a directory above it."""
    name = Path(mask.path).name
    with ExitStack() as stack:
        folder = open_folder(stack, project, mask.path)
        if mask.directory:
            os.mkdir(name, 0o700, dir_fd=folder)
        else:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder))
        if os.geteuid() == 0:
            above = os.fstat(folder)
            os.chown(name, above.st_uid, above.st_gid, dir_fd=folder, follow_symlinks=False)
