"""What can be asked over the control socket."""

from collections.abc import Callable, Mapping

from agent_sandbox.proxy.control import Answer, Verb
from agent_sandbox.proxy.policystore import PolicyStore
from agent_sandbox.proxy.recorder import Recorder
from agent_sandbox.proxy.reloader import Reloader

MOST = 1_000


def control_verbs(
    store: PolicyStore, recorder: Recorder, reloader: Reloader, running: Callable[[], Answer]
) -> Mapping[str, Verb]:
    """Return the table of verbs. `running` describes the process."""

    async def status(_: Mapping[str, object]) -> Answer:
        return {"policy": store.status(), **running(), "requests": recorder.counts}

    async def reload(_: Mapping[str, object]) -> Answer:
        return await reloader.reload()

    async def denials(question: Mapping[str, object]) -> Answer:
        count = question.get("count", 20)
        wanted = count if isinstance(count, int) and not isinstance(count, bool) else 20
        return {"denials": recorder.denials(min(wanted, MOST))}

    return {"status": status, "reload": reload, "denials": denials}
