"""Protect files again in a running agent container, without ending a process in it."""

from collections.abc import Mapping

from agent_sandbox.engines.compose.engine import Engine
from agent_sandbox.engines.container import Container
from agent_sandbox.stack.containers import REPROTECT

# To enter the agent's mount namespace (the first three) and to replace a file of whichever owner.
CAPABILITIES = ("SYS_ADMIN", "SYS_PTRACE", "SYS_CHROOT", "DAC_OVERRIDE", "DAC_READ_SEARCH", "CHOWN", "FOWNER")
ISOLATED = ("--rm", "--pull=never", "--network=none", "--read-only", "--user=0:0", "--cap-drop=ALL")
# AppArmor's and SELinux's rules for containers forbid every mount.
OPTIONS = ("no-new-privileges", "apparmor=unconfined", "label=disable")
CGROUPS = "type=bind,source=/sys/fs/cgroup,target=/cgroup"


def reprotect(engine: Engine, agent: Container, digests: Mapping[str, str]) -> str:
    """Mount these files read-only again if they have the given SHA-256; return why that failed, or an empty string.

    With `HIDE` before its SHA-256, the agent sees an empty file. A container with the agent's image does it, as root in
    the agent's namespaces, and ends. Each file is replaced by a new one with the same content, because the agent may
    still have the old one open.
    """
    isolated = (*ISOLATED, *(f"--security-opt={one}" for one in OPTIONS), *(f"--cap-add={one}" for one in CAPABILITIES))
    shared = ("--userns=host", f"--pid=container:{agent.id}", "--cgroupns=host", "--mount", CGROUPS)
    program = ("--entrypoint", REPROTECT, agent.image)
    words = (word for path, digest in digests.items() for word in (digest, path))
    done = engine.ask("run", *isolated, *shared, *program, *words)
    reasons = (f"{engine.program} run ended with {done.code}", *done.err.splitlines())
    return "" if done.code == 0 else reasons[-1]
