from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, override

import pytest
from msgspec.structs import replace

from agent_sandbox.policy import Effect, Origin, parse_request
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.explain.offer import offer_for
from agent_sandbox.policyfile import load_policy
from agent_sandbox.proxy.reload.transition import ConnectionRegistry, PolicyTransition
from certificates import make_authority

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent_sandbox.policy import Policy

GET = parse_request(scheme="https", host="a.test", port=443, method="GET", target="/x")


@pytest.fixture
def revision(policy: Callable[[str], Policy]) -> PolicyTransition:
    return PolicyTransition(old=policy("domains: [a.test]"), new=policy("domains: [b.test]"))


class Connection:
    """Open, with something to end or not; falls over where it is told to."""

    def __init__(self, *, ends: bool = False, falls: bool = False) -> None:
        self.ends, self.falls = ends, falls
        self.reviews = self.aborted = 0

    async def review(self, _: PolicyTransition) -> bool:
        """Count it."""
        self.reviews += 1
        if self.falls:
            raise LookupError
        return self.ends

    def abort(self) -> None:
        """Count it."""
        self.aborted += 1


def test_a_request_is_decided_again(revision: PolicyTransition) -> None:
    assert revision.decide(GET).reason == "no rule allows host a.test"
    assert PolicyTransition(old=revision.new, new=revision.old).decide(GET).allowed


def test_a_destination_is_decided_again(revision: PolicyTransition) -> None:
    assert [revision.decide_connect(host, 443).allowed for host in ("a.test", "b.test")] == [False, True]
    assert [revision.opens(host, 443) for host in ("a.test", "b.test")] == [False, True]


def test_a_place_that_is_another_one_now_is_another_destination(policy: Callable[[str], Policy]) -> None:
    old, new = (policy(f"host_services: {{ollama: {{to: '{to}:11434'}}}}") for to in ("host", "10.0.0.1"))
    asked = parse_request(scheme="http", host="ollama", port=11434, method="GET", target="/x")
    there = policy("domains: [a.test]\nhost_services: {ollama: {to: 'host:11434'}}")
    assert PolicyTransition(old=old, new=there).decide(asked).allowed
    moved = PolicyTransition(
        old=there, new=policy("host_services: {ollama: {to: 'host:11434'}, x: {to: 'ollama:11434'}}")
    )
    decision = moved.decide(asked)
    assert (decision.allowed, decision.reason) == (False, "ollama:11434 now leads to a different address")
    assert (moved.decide_connect("ollama", 11434).allowed, moved.opens("ollama", 11434)) == (False, True)
    assert new.host_service("10.0.0.1", 11434) is not None


def test_how_much_may_follow_a_secret_is_decided_again(policy: Callable[[str], Policy]) -> None:
    put_in = "transform: {request: {headers: {X: {secret: s, transform: {type: bearer}}}}}"
    new = policy(f"domains: [{{host: a.test, {put_in}, rules: [{{max_body: 10}}]}}, a.test]")
    revision = PolicyTransition(old=new, new=new)
    limits = [revision.decide(replace(GET, secrets=secrets)).max_body for secrets in (True, False)]
    assert limits == [10, None]


def test_what_was_begun_while_others_were_trusted_to_sign_is_ended(tmp_path: Path) -> None:
    make_authority(tmp_path, ["a.test"])

    def policy(settings: str) -> Policy:
        (tmp_path / "policy.yaml").write_text(f"domains: [a.test]\n{settings}")
        return load_policy(tmp_path / "policy.yaml")

    plain, trusting = policy(""), policy("settings: {upstream: {ca: ca.crt}}")
    for old, new in ((plain, trusting), (trusting, plain)):
        decision = PolicyTransition(old=old, new=new).decide(GET)
        assert (decision.allowed, decision.reason) == (False, "the trusted CAs changed")
        assert not PolicyTransition(old=old, new=new).decide_connect("a.test", 443).allowed
    assert PolicyTransition(old=trusting, new=trusting).decide(GET).allowed


async def test_all_that_is_open_is_reviewed_and_what_ended_is_counted(revision: PolicyTransition) -> None:
    connections = ConnectionRegistry()
    first, second, gone = Connection(ends=True), Connection(), Connection(ends=True)
    with connections.holding(gone):
        pass
    with connections.holding(first), connections.holding(second):
        assert await connections.review(revision) == 1
    assert [(one.reviews, one.aborted) for one in (first, second, gone)] == [(1, 0), (1, 0), (0, 0)]


async def test_what_a_fault_leaves_unreviewed_is_ended(revision: PolicyTransition) -> None:
    connections = ConnectionRegistry()
    first, broken, last = Connection(), Connection(falls=True), Connection()
    holding = connections.holding
    with holding(first), holding(broken), holding(last), pytest.raises(LookupError):
        await connections.review(revision)
    assert [(one.reviews, one.aborted) for one in (first, broken, last)] == [(0, 1), (1, 1), (1, 0)]


class Serving(Connection):
    """Served by a task, which says how it ended; a deaf one has to be cancelled."""

    def __init__(self, connections: ConnectionRegistry, *, deaf: bool = False) -> None:
        super().__init__()
        self.deaf, self.ended = deaf, ""
        self.over = asyncio.Event()
        self.task = asyncio.create_task(self.serve(connections))

    async def serve(self, connections: ConnectionRegistry) -> None:
        """Wait for the end."""
        with connections.holding(self):
            try:
                await self.over.wait()
                self.ended = "aborted"
            finally:
                self.ended = self.ended or "cancelled"

    @override
    def abort(self) -> None:
        """Hear it, or not."""
        if not self.deaf:
            self.over.set()


async def test_all_that_is_open_is_ended_and_what_does_not_hear_it_is_cancelled() -> None:
    connections = ConnectionRegistry()
    serving = [Serving(connections), Serving(connections, deaf=True)]
    await asyncio.sleep(0)
    await connections.end(seconds=0.01)
    assert [one.ended for one in serving] == ["aborted", "cancelled"]


async def test_where_nothing_is_open_there_is_nothing_to_wait_for() -> None:
    await ConnectionRegistry().end(seconds=10)


def test_a_request_with_a_grant_of_its_own_is_decided_with_it(revision: PolicyTransition) -> None:
    offer = offer_for(GET, revision.new)
    assert offer
    rule = Rule(effect=Effect.ALLOW, conditions=offer.once, origin=Origin(file="grant", line=1, layer="grant"))
    assert revision.granting((rule,)).decide(GET).allowed
    assert revision.granting(()) is revision
