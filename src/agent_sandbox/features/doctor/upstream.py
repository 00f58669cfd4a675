"""Check whether the policy names this machine's upstream proxy, and the CA of a network that intercepts TLS."""

import os
import stat
from collections.abc import Mapping

from agent_sandbox.engines.protocol import Machine
from agent_sandbox.engines.result import CheckResult, fail, ok, warn
from agent_sandbox.features.policy.layers import FILE, load_here
from agent_sandbox.host.user_dirs import config_directory, layer_folders
from agent_sandbox.policy.match.upstream import CREDENTIALS, Upstream

VARIABLES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
UNREADABLE = "{} cannot be read by the proxy, which runs as another user"
OPEN = "`chmod 644` it, and `chmod 700` the parent of its folder"
# Parts of the proxy's reasons.
UNKNOWN_AUTHORITY = ("unknown authority", "certificate is self-signed")
INTERCEPTED = "requests to {} fail, because the certificate is not from a public CA: does your network intercept TLS?"
SLOW = "TLS handshake in time"
SMALL_LINK = "requests to {} fail, because the network drops packets of more than {} bytes: do you use a VPN?"
SET_MTU = "write `mtu: {}` into .devcontainer/sandbox.yaml, then agent-sandbox down, and agent-sandbox up"
NAME_CA = (
    "put its CA into ~/.config/agent-sandbox, name it in policy.yaml there (`settings: {upstream: {ca: FILE}}`), "
    "then agent-sandbox proxy reload"
)


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


def requests(machine: Machine) -> CheckResult:
    """Report allowed requests that failed since the policy was loaded."""
    from agent_sandbox.features.proxy.control import ask_proxy  # noqa: PLC0415 - `up` imports this table, too

    project = machine.project
    found = machine.driver.observe(project.name)
    proxy = next((one for one in found if one.service == "proxy" and one.state == "running"), None)
    if proxy is None:
        return ok("requests", "not running")
    said = ask_proxy(machine.driver, proxy, "status")
    loaded = str(said.get("policy", {}).get("loaded", ""))
    failed = [one for one in said.get("failed", {}).get("last", ()) if one["time"] >= loaded]
    if not failed:
        return ok("requests", "none failed since the policy was loaded")
    intercepted = [one["host"] for one in failed if any(part in one["reason"] for part in UNKNOWN_AUTHORITY)]
    if intercepted:
        return fail("requests", INTERCEPTED.format(", ".join(dict.fromkeys(intercepted))), NAME_CA)
    slow = next((one for one in failed if SLOW in one["reason"]), None)
    if slow and (mtu := _small_link(machine, slow["host"], slow["port"])):
        return fail("requests", SMALL_LINK.format(slow["host"], mtu), SET_MTU.format(mtu))
    last = failed[-1]
    what = f"{len(failed)} of the last requests failed, such as one to {last['host']}: {last['reason']}"
    return warn("requests", what, "agent-sandbox status lists them")


def _small_link(machine: Machine, host: str, port: int) -> int:
    """Return the MTU of a small link to a host, 0 if there is none, or if an upstream proxy is in between."""
    from agent_sandbox.features.doctor.link_mtu import link_mtu  # noqa: PLC0415 - only after such a failure

    said = load_here(machine.project.policy, os.environ).settings.upstream
    return 0 if said and said.proxy_for(host) else link_mtu(host, port)
