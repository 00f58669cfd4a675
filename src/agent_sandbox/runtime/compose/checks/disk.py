"""Check for disk space for images."""

import shutil
from pathlib import Path

from agent_sandbox.runtime.compose.checks.host import EngineHost
from agent_sandbox.runtime.compose.remedies import Need
from agent_sandbox.runtime.driver.result import CheckResult, fail, ok, warn

GIB = 1 << 30
NEEDED = 2 * GIB  # the images of one agent, and the build cache
COMFORTABLE = 6 * GIB


def disk(host: EngineHost) -> CheckResult:
    """Check the disk where the Docker engine stores images, if it is on this system."""
    program = host.engine.program
    root = Path(host.info.get("DockerRootDir", ""))
    if not (host.is_local and root.is_dir()):
        return ok("disk", f"the Docker engine's disk is not on this system; `{program} system df` shows what is used")
    free = shutil.disk_usage(root).free
    what = f"{free / GIB:.1f} GiB free for images in {root}"
    hint = host.engine.remedy(Need.SPACE)
    if free < NEEDED:
        return fail("disk", what, hint)
    return warn("disk", what, hint) if free < COMFORTABLE else ok("disk", what)
