from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, cast

import pytest
from msgspec.structs import replace

from agent_sandbox.policy import Decision, Effect, Policy, decide_connect
from agent_sandbox.proxy.exchange.engine import Engine
from agent_sandbox.proxy.exchange.exchange import OverBudget, Spend, spend_freely
from agent_sandbox.proxy.front.passthrough_relay import Relay, is_passthrough
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.net.connection_limit import Held, Place
from agent_sandbox.proxy.net.peekable_reader import PeekableReader
from agent_sandbox.proxy.reload.transition import PolicyTransition
from agent_sandbox.proxy.tunnel import Carries, Tunnel
from agent_sandbox.proxy.upstream.dialler import DialError, Dialler, NotReached, Refused
from layer_harness import hooks_of
from memory_streams import memory_streams
from policy_texts import PolicyOf
from sleeps import turns

if TYPE_CHECKING:
    from agent_sandbox.proxy.audit.record import AuditRecord
    from agent_sandbox.proxy.upstream.proxy_connect import Streams

TUNNEL = Tunnel(client="10.0.0.3", carries=Carries.TLS, host="a.test", port=443)
UNOPENED = "domains: [{host: a.test, inspect: false}]"
NO = Decision(effect=Effect.DENY, rule=None, origin=None, reason="no")


def hello(*extensions: int) -> bytes:
    listed = b"".join(kind.to_bytes(2) + b"\0\0" for kind in extensions)
    body = b"\x03\x03" + bytes(32) + b"\0" + b"\0\x02\x13\x01" + b"\x01\0" + len(listed).to_bytes(2) + listed
    message = b"\x01" + len(body).to_bytes(3) + body
    return b"\x16\x03\x01" + len(message).to_bytes(2) + message


@pytest.mark.parametrize(
    ("tunnel", "said", "rules", "wanted"),
    [
        (TUNNEL, hello(), UNOPENED, True),
        (TUNNEL, hello(0xFE0D), UNOPENED, False),
        (TUNNEL, hello(0x0010, 0xFFCE), UNOPENED, False),
        (TUNNEL, hello()[:20], UNOPENED, False),
        (TUNNEL, hello(), "domains: [a.test]", False),
        (Tunnel(client="", carries=Carries.HTTP, host="a.test", port=443), b"GET", UNOPENED, False),
        (Tunnel(client="", carries=Carries.TLS, host="a.test", port=443, decision=NO), hello(), UNOPENED, False),
    ],
)
def test_is_passthrough_only_for_allowed_tls_that_the_policy_does_not_inspect(
    policy: PolicyOf, tunnel: Tunnel, said: bytes, rules: str, *, wanted: bool
) -> None:
    assert is_passthrough(tunnel, said, policy(rules)) is wanted


class Stage:
    """A relay between a client and a server."""

    def __init__(
        self, policy: Policy, *, limits: Limits | None = None, ahead: bytes = b"", spend: Spend = spend_freely
    ) -> None:
        self.lines: list[AuditRecord] = []
        self.client, writer, self.to_client = memory_streams()
        self.server, self.server_writer, self.to_server = memory_streams()
        self.dialled: asyncio.Future[Streams] = asyncio.get_running_loop().create_future()
        engine = Engine(
            hooks=hooks_of(),
            dialler=cast("Dialler", self),
            limits=limits or Limits(),
            record=self.lines.append,
            policy=lambda: policy,
            spender=lambda budgeted: spend if budgeted else spend_freely,
        )
        self.client.feed_data(ahead or hello())
        lead = PeekableReader(self.client, Place(Held()))
        tunnel = replace(TUNNEL, decision=decide_connect(policy, host=TUNNEL.host, port=TUNNEL.port))
        self.relay = Relay(engine, tunnel, lead, writer)
        self.running = asyncio.create_task(self.relay.run())

    async def dial(self, _: str, __: int) -> Streams:
        return await self.dialled

    def reached(self) -> None:
        self.dialled.set_result((self.server, self.server_writer))

    @property
    def line(self) -> tuple[str, str]:
        (line,) = self.lines
        return line.decision, line.reason


ALLOWED = "allowed by policy.yaml:2"


async def test_waits_for_the_server_to_end_if_half_close_is_not_possible(
    policy: PolicyOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(policy(UNOPENED))
    monkeypatch.setattr(stage.to_server, "can_write_eof", lambda: False)
    stage.reached()
    await turns()
    stage.client.feed_eof()
    await turns()
    assert (stage.running.done(), stage.to_server.ended) == (False, "")
    stage.server.feed_eof()
    await stage.running
    assert stage.line == ("allow", ALLOWED)


@pytest.mark.parametrize(
    ("why", "decision", "cause"), [(Refused("inside"), "deny", "address"), (NotReached("gone"), "allow", "")]
)
async def test_records_a_server_that_is_refused_or_not_reached(
    policy: PolicyOf, why: NotReached, decision: str, cause: str
) -> None:
    stage = Stage(policy(UNOPENED))
    stage.dialled.set_exception(DialError(why))
    await stage.running
    assert (*stage.line, stage.lines[0].cause) == (decision, str(why), cause)
    assert stage.lines[0].failed == (decision == "allow")
    assert stage.to_client.ended == "closed"


async def test_does_not_connect_to_a_denied_host(policy: PolicyOf) -> None:
    stage = Stage(policy("domains: [b.test]"))
    await stage.running
    assert stage.line == ("deny", "no rule allows host a.test")
    assert stage.to_client.ended == "closed"


async def test_records_a_fault_as_a_denial(policy: PolicyOf) -> None:
    stage = Stage(policy(UNOPENED))
    stage.dialled.set_exception(LookupError())
    with pytest.raises(LookupError):
        await stage.running
    assert stage.line[0] == "deny"
    assert stage.to_client.ended == "closed"


async def test_aborts_an_idle_connection(policy: PolicyOf) -> None:
    stage = Stage(policy(UNOPENED), limits=Limits(idle_seconds=cast("int", 0.1)))
    stage.reached()
    await stage.running
    assert stage.line == ("allow", f"{ALLOWED}; aborted: neither side sent anything for too long")
    assert (stage.to_client.ended, stage.to_server.ended) == ("aborted", "aborted")


def stand_still(seconds: float) -> None:
    time.sleep(seconds)


async def test_bytes_that_arrive_at_the_idle_timeout_do_not_prevent_the_abort(policy: PolicyOf) -> None:
    stage = Stage(policy(UNOPENED), limits=Limits(idle_seconds=cast("int", 0.02)))
    stage.reached()
    await turns()
    asyncio.get_running_loop().call_later(0.01, stage.server.feed_data, b"late")
    stand_still(0.04)  # both are due now, and the bytes come first
    await stage.running
    assert stage.line == ("allow", f"{ALLOWED}; aborted: neither side sent anything for too long")


async def test_a_reset_by_the_server_aborts_both_sides(policy: PolicyOf) -> None:
    stage = Stage(policy(UNOPENED))
    stage.reached()
    await turns()
    stage.server.set_exception(ConnectionResetError("reset by the server"))
    await stage.running
    assert stage.line == ("allow", f"{ALLOWED}; aborted: reset by the server")
    assert (stage.to_client.ended, stage.to_server.ended) == ("aborted", "aborted")


@pytest.mark.parametrize("leaves", ["in good order", "by a reset", "put out"])
async def test_cancels_the_dial_if_the_client_leaves(policy: PolicyOf, leaves: str) -> None:
    stage = Stage(policy(UNOPENED))
    await turns()
    stage.client.feed_data(b"more")
    await turns()
    assert not stage.running.done()
    if leaves == "in good order":
        stage.client.feed_eof()
    elif leaves == "by a reset":
        stage.client.set_exception(ConnectionResetError())
    else:
        stage.relay.abort()
    await stage.running
    assert stage.dialled.cancelled()
    assert stage.line == ("allow", f"{ALLOWED}; aborted: the client left before the server was reached")
    assert stage.to_client.ended == "aborted"


async def test_an_abort_before_the_start_cancels_the_dial(policy: PolicyOf) -> None:
    stage = Stage(policy(UNOPENED))
    stage.relay.abort()
    stage.client.feed_eof()
    await stage.running
    assert stage.dialled.cancelled()


async def test_forwards_bytes_that_arrive_before_the_server_is_reached(policy: PolicyOf) -> None:
    stage = Stage(policy(UNOPENED), limits=Limits(held_bytes=len(hello()) + 3))
    await turns()
    stage.client.feed_data(b"more")
    await turns()
    stage.client.feed_data(b"and more")
    stage.client.feed_eof()
    await turns()
    assert stage.relay._peekable.ahead == hello() + b"more"  # beyond `held_bytes`, nothing is read ahead
    stage.reached()
    await turns()
    assert stage.to_server.written == hello() + b"moreand more"
    stage.server.feed_eof()
    await stage.running


async def test_records_an_unexpectedly_cancelled_dial_as_a_denial(policy: PolicyOf) -> None:
    stage = Stage(policy(UNOPENED))
    stage.dialled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stage.running
    assert stage.line[0] == "deny"
    assert stage.to_client.ended == "closed"


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("domains: [b.test]", "the policy was reloaded: no rule allows host a.test"),
        ("domains: [a.test]", "the policy was reloaded: connections to this host are now inspected"),
    ],
)
@pytest.mark.parametrize("stop", ["dialling", "passing"])
async def test_a_new_policy_aborts_relays_that_it_denies_or_inspects(
    policy: PolicyOf, rules: str, reason: str, stop: str
) -> None:
    old = policy(UNOPENED)
    stage = Stage(old)
    if stop == "passing":
        stage.reached()
    await turns()
    assert await stage.relay.review(PolicyTransition(old=old, new=old)) is False
    assert await stage.relay.review(PolicyTransition(old=old, new=policy(rules))) is True
    assert stage.to_client.ended == "aborted"
    if stop == "passing":
        stage.client.set_exception(ConnectionResetError())
    await stage.running
    assert stage.dialled.cancelled() is (stop == "dialling")
    assert stage.line == ("deny", reason)
    assert stage.to_server.written == (hello() if stop == "passing" else b"")


LIMITED = "domains: [{host: a.test, inspect: false, budget: {requests: 1/min, upload: 1KiB/min, download: 1KiB/min}}]"


@pytest.mark.parametrize("kind", ["requests", "upload", "download"])
async def test_a_connection_ends_when_a_budget_is_used_up(policy: PolicyOf, kind: str) -> None:
    def spend(asked: str, size: int) -> OverBudget | None:
        spent.append((asked, size))
        return OverBudget("no more", 9) if asked == kind else None

    spent: list[tuple[str, int]] = []
    stage = Stage(policy(LIMITED), spend=spend)
    stage.reached()
    stage.server.feed_data(b"hello yourself")
    await stage.running
    (line,) = stage.lines
    assert (line.decision, line.reason, line.cause) == ("deny", "no more", "budget")
    assert spent[0] == ("requests", 1)
    assert kind in dict(spent)
    assert (stage.to_server.written == b"") is (kind in {"requests", "upload"})


async def test_an_open_connection_counts_against_the_budgets_of_a_new_policy(policy: PolicyOf) -> None:
    old = policy(UNOPENED)
    stage = Stage(old, spend=lambda *_: OverBudget("no more", 9))
    stage.reached()
    await turns()
    assert await stage.relay.review(PolicyTransition(old=old, new=policy(LIMITED))) is False
    stage.server.feed_data(b"hello yourself")
    await stage.running
    assert stage.line == ("deny", "no more")
