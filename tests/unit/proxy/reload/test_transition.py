import asyncio
from pathlib import Path
from typing import override

import pytest
from msgspec.structs import replace

from agent_sandbox.policy import Effect, Origin, Policy, parse_request
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.explain.offer import offer_for
from agent_sandbox.policyfile import load_policy
from agent_sandbox.proxy.reload.transition import ConnectionRegistry, PolicyTransition
from certificates import make_authority
from policy_texts import PolicyOf

GET = parse_request(scheme="https", host="a.test", port=443, method="GET", target="/x")


@pytest.fixture
def revision(policy: PolicyOf) -> PolicyTransition:
    return PolicyTransition(old=policy("domains: [a.test]"), new=policy("domains: [b.test]"))


class Connection:
    """An open connection that ends, stays open or fails in a review."""

    def __init__(self, *, ends: bool = False, falls: bool = False) -> None:
        self.ends, self.falls = ends, falls
        self.reviews = self.aborted = 0

    async def review(self, _: PolicyTransition) -> bool:
        """Count the call."""
        self.reviews += 1
        if self.falls:
            raise LookupError
        return self.ends

    def abort(self) -> None:
        """Count the call."""
        self.aborted += 1


def test_decides_a_request_by_the_new_policy(revision: PolicyTransition) -> None:
    assert revision.decide(GET).reason == "no rule allows host a.test"
    assert PolicyTransition(old=revision.new, new=revision.old).decide(GET).allowed


def test_decides_a_destination_by_the_new_policy(revision: PolicyTransition) -> None:
    assert [revision.decide_connect(host, 443).allowed for host in ("a.test", "b.test")] == [False, True]
    assert [revision.opens(host, 443) for host in ("a.test", "b.test")] == [False, True]


def test_denies_a_host_service_that_now_leads_to_a_different_address(policy: PolicyOf) -> None:
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


def test_denies_a_host_that_now_has_a_different_upstream_proxy(policy: PolicyOf) -> None:
    setting = "domains: [a.test]\nsettings: {upstream: {proxy: 'http://proxy.test:3128', no_proxy: [%s]}}"
    direct, other, proxied = policy("domains: [a.test]"), policy(setting % "a.test"), policy(setting % "b.test")
    assert PolicyTransition(old=direct, new=other).decide(GET).allowed
    for old, new in ((direct, proxied), (proxied, other)):
        decision = PolicyTransition(old=old, new=new).decide(GET)
        assert (decision.allowed, decision.reason) == (False, "a.test now has a different upstream proxy")
        assert not PolicyTransition(old=old, new=new).decide_connect("a.test", 443).allowed


def test_the_new_body_limit_depends_on_whether_a_secret_is_injected(policy: PolicyOf) -> None:
    put_in = "transform: {request: {headers: {X: {secret: s, transform: {type: bearer}}}}}"
    new = policy(f"domains: [{{host: a.test, {put_in}, rules: [{{max_body: 10}}]}}, a.test]")
    revision = PolicyTransition(old=new, new=new)
    limits = [revision.decide(replace(GET, secrets=secrets)).max_body for secrets in (True, False)]
    assert limits == [10, None]


def test_denies_open_requests_when_the_trusted_cas_change(tmp_path: Path) -> None:
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


async def test_reviews_all_open_connections_and_counts_those_that_end(revision: PolicyTransition) -> None:
    connections = ConnectionRegistry()
    first, second, gone = Connection(ends=True), Connection(), Connection(ends=True)
    with connections.holding(gone):
        pass
    with connections.holding(first), connections.holding(second):
        assert await connections.review(revision) == 1
    assert [(one.reviews, one.aborted) for one in (first, second, gone)] == [(1, 0), (1, 0), (0, 0)]


async def test_a_fault_in_a_review_aborts_the_remaining_connections(revision: PolicyTransition) -> None:
    connections = ConnectionRegistry()
    first, broken, last = Connection(), Connection(falls=True), Connection()
    holding = connections.holding
    with holding(first), holding(broken), holding(last), pytest.raises(LookupError):
        await connections.review(revision)
    assert [(one.reviews, one.aborted) for one in (first, broken, last)] == [(0, 1), (1, 1), (1, 0)]


class Serving(Connection):
    """A connection in a task that notes how it ended; a deaf one ignores `abort`."""

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
        """End the task, unless it is deaf."""
        if not self.deaf:
            self.over.set()


async def test_end_aborts_open_connections_and_cancels_those_that_do_not_react() -> None:
    connections = ConnectionRegistry()
    serving = [Serving(connections), Serving(connections, deaf=True)]
    await asyncio.sleep(0)
    await connections.end(seconds=0.01)
    assert [one.ended for one in serving] == ["aborted", "cancelled"]


async def test_end_returns_at_once_without_open_connections() -> None:
    ending = asyncio.create_task(ConnectionRegistry().end(seconds=10))
    await asyncio.sleep(0)
    assert ending.done()
    await ending


def test_decides_a_request_with_its_own_grant(revision: PolicyTransition) -> None:
    offer = offer_for(GET, revision.new)
    assert offer
    rule = Rule(effect=Effect.ALLOW, conditions=offer.once, origin=Origin(file="grant", line=1, layer="grant"))
    assert revision.granting((rule,)).decide(GET).allowed
    assert revision.granting(()) is revision
