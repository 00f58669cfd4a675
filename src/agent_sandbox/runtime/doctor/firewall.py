"""Check whether the running firewall counts what it refuses."""

from agent_sandbox.runtime.driver.protocol import Machine
from agent_sandbox.runtime.driver.result import CheckResult, ok, warn
from agent_sandbox.runtime.refusals import NOT_COUNTED, read_refusals


def firewall(machine: Machine) -> CheckResult:
    """Report how much was refused; counting begins when the agent container has started."""
    found = machine.driver.observe(machine.project.name)
    refusals = read_refusals(machine.driver, found)
    if refusals is None or not any(one.service == "agent" and one.ready for one in found):
        return ok("firewall", "not running")
    if not refusals.counted:
        what, _, hint = NOT_COUNTED.partition("; ")
        return warn("firewall", what, hint)
    return ok("firewall", f"{refusals.total} refused in the last day: agent-sandbox logs --firewall")
