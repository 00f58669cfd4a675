import pytest

from agent_sandbox.audit_event import Event
from agent_sandbox.policy import Effect, Policy, decide
from agent_sandbox.proxy.ask.learning import EXPIRED, LONGEST_SECONDS, Learning
from agent_sandbox.proxy.exchange.exchange import Exchange, open_exchange
from asking_world import HEAD, TUNNEL, World, request
from policy_texts import PolicyOf
from table_tests import each

POLICY = """\
domains:
  - {host: a.test, rules: [{path: {prefix: /v1}}]}
  - {host: asks.test, rules: [{path: {prefix: /v1}, ask: true}]}
  - host: keyed.test
    rules:
      - path: {prefix: /v1}
        transform: {request: {headers: {Authorization: {secret: key, transform: {type: bearer}}}}}
deny: [bad.test, {host: new.test, rules: [{path: {prefix: /never}}]}]
"""
GET = "GET https://new.test/x"


class Started:
    """A proxy that learns."""

    def __init__(self, policy: Policy) -> None:
        self.world = World(policy)
        self.ended_open = 0
        self.learning = Learning(
            self.world.grants,
            policy=lambda: self.world.store.current,
            end_open=self._end_open,
            record=self.world.records.append,
            clock=lambda: self.world.now,
            later=self.world._later,
        )
        self.start()

    def start(self, seconds: object = 600) -> object:
        return self.learning.verb({"seconds": seconds, "who": "ana\x1b"})

    def ask(self, line: str) -> tuple[Exchange, bool]:
        policy, asked = self.world.store.current, request(line)
        exchange = open_exchange(HEAD, TUNNEL, started=0)
        return exchange, self.learning.allow(exchange, asked, decide(policy, asked), policy)

    def would_allow(self, host: str) -> bool:
        asked = request(f"GET https://{host}/")
        return self.learning.would_allow(host, 443, decide(self.world.store.current, asked))

    def _end_open(self) -> None:
        self.ended_open += 1


@pytest.fixture
def started(policy: PolicyOf) -> Started:
    return Started(policy(POLICY))


@each(
    ("line", "expected"),
    [
        (GET, True),
        ("POST https://new.test/x", True),
        ("GET https://a.test/other", True),
        ("GET https://a.test/v1/x", False),  # a rule allows it already
        ("GET https://new.test/never/x", False),
        ("GET https://bad.test/", False),
        ("GET https://10.0.0.1/", False),
        ("GET https://169.254.169.254/latest/meta-data/", False),
        ("GET https://localhost/", False),
        ("GET https://metadata.google.internal/", False),
        ("GET https://nas/", False),
        ("GET https://keyed.test/other", False),
        ("GET https://asks.test/other", True),
        ("GET https://asks.test/v1/x", False),
        ("GET https://asks.test/V1/x", False),
        ("GET https://probe.invalid/", False),
    ],
)
def test_allows_requests_that_no_rule_matches_and_a_grant_could_allow(
    started: Started, line: str, *, expected: bool
) -> None:
    exchange, allowed = started.ask(line)
    assert allowed is expected
    granted = started.world.store.current.granting(exchange.grants)
    assert decide(granted, request(line)).allowed is (expected or line == "GET https://a.test/v1/x")


def test_a_grant_is_for_one_request_and_names_who_started_learning(started: Started) -> None:
    exchange, _ = started.ask(GET)
    (grant,) = exchange.grants
    assert not exchange.waits
    assert grant.verdict.rule == "grant:1"
    assert "learning, by ana\\x1b" in grant.verdict.reason
    assert not decide(started.world.store.current, request(GET)).allowed
    exchange.waiting.leave()  # type: ignore[union-attr] # it has one
    assert exchange.grants == (grant,)


def test_records_only_the_start_and_the_end(started: Started) -> None:
    started.ask(GET)
    assert started.learning.verb({"seconds": 0, "who": "bo"}) == {"ok": True}
    assert [(line.event, line.decision, line.reason) for line in started.world.records] == [
        (
            Event.GRANT,
            Effect.ALLOW,
            "learning: for 10 minutes, ana\\x1b allowed what no rule denies",
        ),
        (Event.GRANT, Effect.DENY, "learning ended: bo ended it"),
    ]


def test_the_end_revokes_the_grants_of_open_exchanges(started: Started) -> None:
    exchange, _ = started.ask(GET)
    (timer,) = started.world.timers
    timer.call()
    assert (exchange.grants, started.ended_open, started.world.records[-1].reason) == (
        (),
        1,
        f"learning ended: {EXPIRED}",
    )
    assert started.ask(GET)[1] is False
    timer.call()
    assert started.ended_open == 1


def test_learning_ends_by_the_clock_even_if_no_timer_rings(started: Started) -> None:
    started.world.now += 599
    assert started.ask(GET)[1] is True
    started.world.now += 1
    assert started.ask(GET)[1] is False
    assert not started.would_allow("new.test")
    assert started.learning.seconds_left == 0


def test_a_second_start_resets_the_time(started: Started) -> None:
    started.world.now += 500
    assert started.start(600) == {"ok": True}
    assert started.learning.seconds_left == 600
    assert [timer.cancelled for timer in started.world.timers] == [True, False]


@each("seconds", [None, "600", 1.5, True, -1, LONGEST_SECONDS + 1])
def test_an_invalid_time_is_an_error_and_changes_nothing(started: Started, seconds: object) -> None:
    left = started.learning.seconds_left
    assert started.start(seconds) == {"error": f"`seconds` must be a whole number from 0 to {LONGEST_SECONDS}"}
    assert started.learning.seconds_left == left


@each(
    ("host", "expected"),
    [("new.test", True), ("a.test", False), ("bad.test", False), ("10.0.0.1", False), ("nas", False)],
)
def test_allows_a_tunnel_only_where_a_request_could_be_allowed(started: Started, host: str, *, expected: bool) -> None:
    if host != "a.test":
        assert started.would_allow(host) is expected
    else:  # a rule allows a connection there already
        assert started.world.store.current.index.rules_for(host)
