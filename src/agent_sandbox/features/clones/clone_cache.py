"""Share what the setup script downloaded between the clones of a project, before any agent has run.

A new clone keeps a copy of its ~/.cache as the setup script left it, in a volume that no container of a stack mounts.
The next clone with the same files, setup script, project file, policy and images begins with that copy. So it gets
nothing that its own setup would not have made, and nothing that an agent wrote.
"""

import hashlib
import os

from msgspec.structs import replace

from agent_sandbox.agents.home import HOME
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.engines.place import Helper, Store
from agent_sandbox.features.clones.host_repository import HostRepository, Start
from agent_sandbox.features.policy.layers import load_here
from agent_sandbox.features.stack.execute import driver, run_helper
from agent_sandbox.problems import UserError
from agent_sandbox.project.clone_record import Clone, clones_of, save_clone
from agent_sandbox.project.installed import images_of, open_project
from agent_sandbox.project.project import Project

CACHE, KEPT = "home-cache", "setup-cache"
HOME_CACHE = f"{HOME}/.cache"
# Copies at most 4 GiB. Go makes its modules read-only.
COPY = (
    '[ "$(du --summarize --block-size=1M /from | cut --fields=1)" -le 4096 ] && chmod -R u+rwX . '
    "&& find . -mindepth 1 -delete && exec cp --archive --reflink=auto /from/. ."
)
NOT_KEPT = "note: the downloads of the setup script could not be kept for other clones: they may be larger than 4 GiB"


def cache_key(own: Project, repository: HostRepository, start: Start) -> str:
    """Return a hash of all that the setup of a clone depends on; "" without a setup script or a valid policy."""
    if own.setup not in own.made_of:
        return ""
    try:
        policy = load_here(own.policy, os.environ).digest  # with its host lists, services and the other layers
    except UserError:
        return ""
    tree = repository.output("rev-parse", f"{start.commit}^{{tree}}").strip()
    images = sorted(f"{image.name} {image.digest}" for image in images_of(own))
    parts = (tree, own.setup, policy, *images, *(part for pair in sorted(own.made_of.items()) for part in pair))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def bring_cache(own: Project, clone: Clone, image: str, key: str) -> bool:
    """Start a new clone with the cache that another one of the project kept; return whether there was one."""
    for other in clones_of(clone.project, os.environ) if key else ():
        if other.cache == key and other.name != clone.name:
            stack = open_project(other.root, cwd=other.root)
            source = _kept(stack)
            if source not in driver().leftovers(stack.name)["volumes"]:
                continue
            _copy(own, image, source=source, target=f"{own.name}_{CACHE}")
            return True
    return False


def keep_cache(own: Project, clone: Clone, image: str, key: str) -> None:
    """Keep the cache of a new clone whose setup has just ended, for others."""
    try:
        _copy(own, image, source=f"{own.name}_{CACHE}", target=_kept(own))
    except UserError:
        say(NOT_KEPT)
        return
    save_clone(replace(clone, cache=key))


def _copy(own: Project, image: str, *, source: str, target: str) -> None:
    """Replace the content of a volume, which may be new: it gets the owner of the image's directory."""
    stores = (Store(volume=source, at="/from"), Store(volume=target, at=HOME_CACHE, writes=True))
    helper = Helper(project=own, image=image, stores=stores, directory=HOME_CACHE)
    copying = driver().spawn(helper, "/bin/sh", "-c", COPY, user=f"{own.owner.uid}:{own.owner.gid}")
    run_helper(copying, doing="copying the caches")


def _kept(project: Project) -> str:
    return f"{project.name}_{KEPT}"
