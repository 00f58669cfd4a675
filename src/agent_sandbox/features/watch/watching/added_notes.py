"""Add to questions what this machine knows: what is risky about the host, and which program in the sandbox asks.

The sandbox itself says which program it is, so it is a hint: it decides nothing, and is shown as not verified.
"""

import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import count

from msgspec.structs import replace

from agent_sandbox.features.ports.live_ports import PYTHON, code_of
from agent_sandbox.features.ports.reported import parse_clients
from agent_sandbox.features.proxy.reports import Question, State
from agent_sandbox.features.stack.execute import driver
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policytools.edit.short_rule import read_short_rule
from agent_sandbox.policytools.suggest.suggesting import warnings_about
from agent_sandbox.problems import UserError
from agent_sandbox.project.project import Project

ADDRESS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}:[0-9]{1,5}", re.ASCII)
MOST = 3  # risks of one question
# Between two looks into the sandbox; longer while there are always new questions, because each look costs an exec.
PAUSE_SECONDS, DOUBLINGS = 1.0, 3

type Look = Callable[[tuple[str, ...]], Mapping[str, str]]


class AddedNotes:
    """Adds notes to the questions of one project. `on_found` is called from a thread when there are new ones.

    `look` returns the commands of the programs that have connections from some addresses.
    """

    def __init__(self, look: Look, on_found: Callable[[], None], *, pause: float = PAUSE_SECONDS) -> None:
        self._look, self._on_found, self._pause = look, on_found, pause
        self._lock = threading.Lock()
        self._senders: dict[str, str] = {}
        self._wanted: frozenset[str] = frozenset()
        self._looking = False

    def to(self, state: State) -> State:
        """Return the state with what is known so far, and have the rest looked for."""
        with self._lock:
            clients = frozenset(one.client for one in state.questions if one.client)
            self._senders = {client: sender for client, sender in self._senders.items() if client in clients}
            self._wanted = clients - self._senders.keys()
            starts = bool(self._wanted) and not self._looking
            self._looking = self._looking or starts
            senders = dict(self._senders)
        if starts:
            threading.Thread(target=self._find, daemon=True).start()
        questions = (replace(one, risks=risks_of(one), sender=senders.get(one.client, "")) for one in state.questions)
        return replace(state, questions=tuple(questions))

    def _find(self) -> None:
        for looks in count():
            with self._lock:
                wanted = tuple(sorted(self._wanted))
                self._looking = bool(wanted)
            if not wanted:
                return
            found: Mapping[str, str] = {}
            with suppress(UserError, OSError):
                found = self._look(wanted)
            with self._lock:
                self._senders |= {client: found.get(client, "") for client in wanted}
                self._wanted -= self._senders.keys()
            if found:
                self._on_found()
            time.sleep(self._pause * 2 ** min(looks, DOUBLINGS))


def sandbox_clients(project: Project, addresses: tuple[str, ...]) -> Mapping[str, str]:
    """Return the commands of the programs in the agent container that have connections from these addresses."""
    asked = [*filter(ADDRESS.fullmatch, addresses)]
    agent = next((one for one in driver().observe(project.name) if one.service == "agent"), None)
    if not asked or agent is None or agent.state != "running":
        return {}
    done = driver().spawn(agent, *PYTHON, code_of("listeners.py"), "clients", *asked).capture()
    return parse_clients(done.out, asked)


def risks_of(question: Question) -> tuple[str, ...]:
    """Return what a user should know before allowing what the question offers."""
    scheme, _, rest = question.url.partition("://")
    return _risks(question.rule or f"{question.method} {scheme}://{rest.partition('/')[0]}/")


@lru_cache(maxsize=256)
def _risks(rule: str) -> tuple[str, ...]:
    try:
        return tuple(warnings_about(read_short_rule(Effect.ALLOW, [rule])))[:MOST]
    except UserError:  # a method that no rule can name
        return ()
