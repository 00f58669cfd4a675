"""What can be asked over the control socket."""

from collections.abc import Callable, Mapping

from agent_sandbox.proxy.control import Answer, Verb
from agent_sandbox.proxy.line import Event, Line
from agent_sandbox.proxy.policystore import PolicyStore
from agent_sandbox.proxy.recorder import Recorder

MOST = 1_000


def control_verbs(store: PolicyStore, recorder: Recorder, running: Callable[[], Answer]) -> Mapping[str, Verb]:
    """Return the table of verbs. `running` describes the process."""

    async def status(_: Mapping[str, object]) -> Answer:
        return {"policy": store.status(), **running(), "requests": recorder.counts}

    async def reload(_: Mapping[str, object]) -> Answer:
        problems = await store.reload()
        told = [str(problem) for problem in problems]
        reason = "policy reloaded" if not told else f"policy kept, the file has problems: {told[0]}"
        recorder.record(Line(event=Event.POLICY, decision="deny" if told else "allow", reason=reason))
        return {"ok": not told, "digest": store.current.digest, "problems": told}

    async def denials(question: Mapping[str, object]) -> Answer:
        count = question.get("count", 20)
        wanted = count if isinstance(count, int) and not isinstance(count, bool) else 20
        return {"denials": recorder.denials(min(wanted, MOST))}

    return {"status": status, "reload": reload, "denials": denials}
