"""Whether there is room for images."""

import shutil
from pathlib import Path

from agent_sandbox.runtime.doctor.machine import Machine
from agent_sandbox.runtime.doctor.result import CheckResult, fail, ok, warn

GIB = 1 << 30
NEEDED = 2 * GIB  # the images of one agent, and what building them leaves
COMFORTABLE = 6 * GIB


def disk(machine: Machine) -> CheckResult:
    """Look at the disk that the engine keeps images on, where it is one of this system."""
    root = Path(machine.info.get("DockerRootDir", ""))
    if not (machine.is_local and root.is_dir()):
        return ok("disk", "the engine's disk can't be seen from here; `docker system df` shows what is used")
    free = shutil.disk_usage(root).free
    what = f"{free / GIB:.1f} GiB free for images in {root}"
    hint = "`docker system df` shows what is used, `docker builder prune` removes what builds left"
    if free < NEEDED:
        return fail("disk", what, hint)
    return warn("disk", what, hint) if free < COMFORTABLE else ok("disk", what)
