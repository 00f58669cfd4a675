"""Check whether this machine uses an upstream proxy and the policy names it."""

import os
import stat
from collections.abc import Mapping

from agent_sandbox.policy.match.upstream import CREDENTIALS, Upstream
from agent_sandbox.runtime.driver.protocol import Machine
from agent_sandbox.runtime.driver.result import CheckResult, ok, warn
from agent_sandbox.runtime.host.user_dirs import config_directory, layer_folders
from agent_sandbox.runtime.policies.layers import FILE, load_here

VARIABLES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
UNREADABLE = "{} cannot be read by the proxy, which runs as another user"
OPEN = "`chmod 644` it, and `chmod 700` the parent of its folder"


def upstream(machine: Machine) -> CheckResult:
    """Report the policy's upstream proxy, or warn of one that only this machine's environment names."""
    said = load_here(machine.project.policy, os.environ).settings.upstream
    if said is not None:
        return _credentials(said, os.environ) or ok("upstream", str(said))
    # Only the name: the value may contain a password.
    name = next((name for name in VARIABLES if os.environ.get(name)), None)
    if name is None:
        return ok("upstream", "no upstream proxy")
    folder = config_directory(os.environ)
    where = f"{folder / FILE}" if folder else "a policy"
    hint = f"if it is the only way out, write `settings: {{upstream: {{proxy: http://HOST:PORT}}}}` into {where}"
    return warn("upstream", f"{name} is set here, but the policy names no upstream proxy", hint)


def _credentials(said: Upstream, environ: Mapping[str, str]) -> CheckResult | None:
    folder = layer_folders(environ).get(said.layer)
    path = folder / CREDENTIALS if folder else None
    if path is None or not path.is_file() or path.stat().st_mode & stat.S_IROTH:
        return None
    return warn("upstream", UNREADABLE.format(path), OPEN)
