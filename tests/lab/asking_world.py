"""Questions and grants without a proxy: a policy, a clock, and timers that the test fires."""

from asyncio import TimerHandle
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from agent_sandbox.policy import Policy, Request, decide, parse_request
from agent_sandbox.proxy.ask.grant_book import GrantBook
from agent_sandbox.proxy.ask.questions import Questions
from agent_sandbox.proxy.audit.record import AuditRecord
from agent_sandbox.proxy.exchange.exchange import Exchange, open_exchange
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.reload.policy_store import PolicyStore
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.wire.message import RequestHead


class Timer:
    """A timer that the test fires, unless it was cancelled."""

    def __init__(self, seconds: float, call: Callable[[], object]) -> None:
        self.seconds, self.call, self.cancelled = seconds, call, False

    def cancel(self) -> None:
        """Never ring."""
        self.cancelled = True


class World:
    """All that takes part."""

    def __init__(self, policy: Policy, limits: Limits | None = None) -> None:
        self.now = 100.0
        self.watched, self.asking = True, False
        self.changes = 0
        self.timers: list[Timer] = []
        self.records: list[AuditRecord] = []
        self.reviews: list[PolicyTransition] = []
        self.store = PolicyStore(Path("policy.yaml"), load=lambda _: policy)
        self.grants = GrantBook(
            self.store, review=self._review, record=self.records.append, clock=lambda: self.now, later=self._later
        )
        self.questions = Questions(
            lambda: self.store.current,
            self.grants,
            watched=lambda: self.watched,
            asking=lambda: self.asking,
            on_change=self._change,
            clock=lambda: self.now,
            limits=limits or Limits(),
            later=self._later,
        )
        self.store.on_change = self.questions.review

    async def _review(self, revision: PolicyTransition) -> int:
        self.reviews.append(revision)
        return 0

    def _later(self, seconds: float, call: Callable[[], object]) -> TimerHandle:
        self.timers.append(Timer(seconds, call))
        return cast("TimerHandle", self.timers[-1])

    def _change(self) -> None:
        self.changes += 1

    def ask(self, line: str, *, websocket: bool = False, **more: Any) -> tuple[Exchange, str]:
        """Make a request wait; return it, and the reason if no person is asked."""
        asked = request(line)
        exchange = open_exchange(HEAD, TUNNEL, started=0)
        exchange.websocket = websocket
        policy = self.store.current
        return exchange, self.questions.ask(exchange, asked, decide(policy, asked), policy, **more)

    def ids(self) -> list[int]:
        """The numbers of the open questions."""
        return [question.id for question in self.questions]


TUNNEL = Tunnel(client="10.0.0.3:40112", carries=Carries.PROXY)
HEAD = RequestHead(b"GET", b"/", b"HTTP/1.1", (), b"", "new.test", 443, b"https")


def request(line: str) -> Request:
    """Return a request written as METHOD URL, over https."""
    method, _, url = line.partition(" ")
    host, slash, path = url.removeprefix("https://").partition("/")
    return parse_request(scheme="https", host=host, port=443, method=method, target=slash + path)
