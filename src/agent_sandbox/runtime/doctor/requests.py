"""Check whether allowed requests of the running stack failed, and why: the network may intercept TLS."""

from agent_sandbox.backends.verbs import AskProxy
from agent_sandbox.runtime.driver.protocol import Machine
from agent_sandbox.runtime.driver.result import CheckResult, fail, ok, warn
from agent_sandbox.runtime.proxy.control import ask_stack

# Parts of the proxy's reasons.
UNKNOWN_AUTHORITY = ("unknown authority", "certificate is self-signed")
INTERCEPTED = "requests to {} fail, because the certificate is not from a public CA: does your network intercept TLS?"
NAME_CA = (
    "put its CA into ~/.config/agent-sandbox, name it in policy.yaml there (`settings: {upstream: {ca: FILE}}`), "
    "then agent-sandbox proxy reload"
)


def requests(machine: Machine) -> CheckResult:
    """Report allowed requests that failed since the policy was loaded."""
    project = machine.project
    found = machine.driver.observe(project.name)
    proxy = next((one for one in found if one.service == "proxy" and one.state == "running"), None)
    if proxy is None:
        return ok("requests", "not running")
    said = ask_stack(
        machine.driver, machine.driver.planner.plan(project, AskProxy(argv=("status",), container=proxy.id))
    )
    loaded = str(said.get("policy", {}).get("loaded", ""))
    failed = [one for one in said.get("failed", {}).get("last", ()) if one["time"] >= loaded]
    if not failed:
        return ok("requests", "none failed since the policy was loaded")
    intercepted = [one["host"] for one in failed if any(part in one["reason"] for part in UNKNOWN_AUTHORITY)]
    if intercepted:
        return fail("requests", INTERCEPTED.format(", ".join(dict.fromkeys(intercepted))), NAME_CA)
    last = failed[-1]
    what = f"{len(failed)} of the last requests failed, such as one to {last['host']}: {last['reason']}"
    return warn("requests", what, "agent-sandbox status lists them")
