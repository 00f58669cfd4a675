"""The verbs of the control socket."""

from collections.abc import Callable, Mapping

from agent_sandbox.proxy.audit.audit_log import AuditLog
from agent_sandbox.proxy.control.channel import Answer, Verb
from agent_sandbox.proxy.reload.policy_store import PolicyStore
from agent_sandbox.proxy.reload.reloader import Reloader

MOST = 1_000
MOST_SECONDS = 120


def control_verbs(
    store: PolicyStore, audit_log: AuditLog, reloader: Reloader, running: Callable[[], Answer]
) -> Mapping[str, Verb]:
    """Return the table of verbs. `running` describes the process."""

    async def status(_: Mapping[str, object]) -> Answer:
        counted = {"requests": audit_log.counts, "failed": audit_log.failed, "hints": audit_log.hinted}
        return {"policy": store.status(), **running(), **counted}

    async def reload(_: Mapping[str, object]) -> Answer:
        return await reloader.reload()

    async def denials(question: Mapping[str, object]) -> Answer:
        count = question.get("count", 20)
        wanted = count if isinstance(count, int) and not isinstance(count, bool) else 20
        return {"denials": audit_log.denials(min(wanted, MOST))}

    async def verify(question: Mapping[str, object]) -> Answer:
        seconds = question.get("seconds")
        audit_log.verify_for(min(seconds, MOST_SECONDS) if isinstance(seconds, int) else 0)
        return {"ok": True}

    return {"status": status, "reload": reload, "denials": denials, "verify": verify}
