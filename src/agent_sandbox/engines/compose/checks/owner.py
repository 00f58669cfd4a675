"""Check that `dev` and the project's owner are the same user on the Docker host."""

import shlex

from agent_sandbox.engines.compose.checks.host import EngineHost
from agent_sandbox.engines.compose.checks.users import mapped_owner, namespace_of
from agent_sandbox.engines.result import CheckResult, fail, ok
from agent_sandbox.project import owners
from agent_sandbox.project.installed import read_facts
from agent_sandbox.project.project import Project

OWN = "chown -R {}, then agent-sandbox trust, which asks about the new owner"


def owner(host: EngineHost, project: Project) -> CheckResult:
    """Check that `dev` has the uid and gid of the project's owner, if the engine does not map them."""
    if read_facts(project.root).in_volume:
        return ok("owner", "the workspace is a volume of dev's")
    if not host.is_local:
        return ok("owner", "the Docker engine runs in a virtual machine, which maps owners")
    if kind := namespace_of(host.info):
        return mapped_owner(host, project, kind)
    real = owners.owner_of(project.root)
    if real != project.owner:
        what = f"the files belong to {real.uid}:{real.gid}, but dev inside is {project.owner.uid}:{project.owner.gid}"
        return fail("owner", what, f"{project.init}, then agent-sandbox up")
    if owners.belongs_to_root(project.root):
        what = f"the files belong to root, but dev inside is {real.uid}:{real.gid}: the agent can only read them"
        return fail("owner", what, OWN.format(f"{real.uid}:{real.gid} {shlex.quote(str(project.root))}"))
    return ok("owner", f"dev is {real.uid}:{real.gid}, like the project's owner")
