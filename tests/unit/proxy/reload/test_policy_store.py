from datetime import UTC, datetime, timedelta
from pathlib import Path

from agent_sandbox.policy import Effect, Policy
from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.engine.rule_set import RuleSet
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.match.upstream import Upstream, UpstreamProxy
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.proxy.reload.policy_store import PolicyStore
from policy_texts import PolicyOf

PROBLEM = Problem(where="policy.yaml:2:1", what="unknown key", hint="did you mean x?")
FILE = Path("policy.yaml")


class Files:
    """The results of loading the file, in order."""

    def __init__(self, *results: Policy | Problem) -> None:
        self.results = list(results)

    def load(self, _: Path) -> Policy:
        result = self.results.pop(0)
        if isinstance(result, Problem):
            raise UserError([result])
        return result


class Clock:
    """A clock that advances one second per call."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        """Return the time."""
        self.now += timedelta(seconds=1)
        return self.now


async def reloaded(store: PolicyStore) -> tuple[Problem, ...]:
    policy = await store.read()
    if policy is not None:
        store.replace(policy)
    return store.problems


async def test_read_does_not_put_the_policy_in_force() -> None:
    first, second = Policy.deny_all("first"), Policy.deny_all("second")
    store = PolicyStore(FILE, load=Files(first, second).load)
    assert await store.read() is second
    assert store.current is first


async def test_an_invalid_file_keeps_the_last_valid_policy_and_is_reported_until_fixed() -> None:
    first, mended = Policy.deny_all("first"), Policy.deny_all("mended")
    store = PolicyStore(FILE, load=Files(first, PROBLEM, PROBLEM, mended).load, now=Clock())
    for _ in range(2):
        assert await reloaded(store) == (PROBLEM,)
    assert store.current is first
    assert store.status() == {
        "file": "policy.yaml",
        "digest": first.digest,
        "valid": True,
        "loaded": "2026-01-01T00:00:01Z",
        "problems_since": "2026-01-01T00:00:02Z",
        "problems": ["policy.yaml:2:1: unknown key; did you mean x?"],
        "upstream": [],
    }
    assert await reloaded(store) == ()
    status = store.status()
    assert (status["loaded"], status["problems_since"], status["problems"]) == ("2026-01-01T00:00:03Z", None, [])


async def test_an_invalid_file_at_the_start_denies_everything_until_fixed() -> None:
    store = PolicyStore(FILE, load=Files(PROBLEM, Policy.deny_all("good")).load, now=Clock())
    told = "the policy could not be loaded, so everything is denied: policy.yaml:2:1: unknown key; did you mean x?"
    assert store.current.refusal == told
    assert store.status() == {
        "file": "policy.yaml",
        "digest": store.current.digest,
        "valid": False,
        "loaded": None,
        "problems_since": "2026-01-01T00:00:01Z",
        "problems": ["policy.yaml:2:1: unknown key; did you mean x?"],
        "upstream": [],
    }
    assert await reloaded(store) == ()
    assert (store.valid, store.status()["problems"]) == (True, [])


async def test_problems_contain_the_given_name_of_the_file_instead_of_its_path() -> None:
    problem = Problem(where="/policy/p.yaml:2:1", what="unknown key")
    elsewhere = Problem(where="elsewhere", what="see /policy/p.yaml")
    store = PolicyStore(Path("/policy/p.yaml"), name="here/p.yaml", load=Files(problem, elsewhere).load)
    assert store.status()["file"] == "here/p.yaml"
    assert store.problems == (Problem(where="here/p.yaml:2:1", what="unknown key"),)
    assert await reloaded(store) == (elsewhere,)


def test_the_refusal_lists_three_problems_and_counts_the_rest() -> None:
    def load(_: Path) -> Policy:
        raise UserError([Problem(where=f"p:{line}", what="no") for line in range(1, 10)])

    told = "the policy could not be loaded, so everything is denied: p:1: no; p:2: no; p:3: no; and 6 more"
    assert told == PolicyStore(FILE, load=load).current.refusal


def test_the_status_describes_the_upstream_proxy() -> None:
    proxy = UpstreamProxy(tls=False, host="proxy.corp.example", port=3128)
    origin = Origin(file="user/policy.yaml", line=3, layer="user")
    policy = Policy.of(RuleSet(settings={"upstream": Upstream(layer="user", proxy=proxy, origin=origin)}))
    store = PolicyStore(FILE, load=Files(policy).load)
    told = "all allowed requests go through http://proxy.corp.example:3128 (user/policy.yaml:3)"
    assert store.status()["upstream"] == [told]


async def test_grants_stay_in_force_over_a_reload(policy: PolicyOf) -> None:
    first, second = policy("domains: [a.test]"), policy("domains: [b.test]")
    store = PolicyStore(FILE, load=Files(first, second).load)
    changes: list[Policy] = []
    store.on_change = lambda: changes.append(store.current)
    host = parse_host_pattern("new.test")
    conditions = Conditions(host=host, ports=frozenset({443}), methods=frozenset({"GET"}))
    rule = Rule(effect=Effect.ALLOW, conditions=conditions, origin=Origin(file="grant", line=1, layer="grant"))
    revision = store.grant((rule,))
    assert (revision.old, revision.new is store.current) == (first, True)
    await reloaded(store)
    for current in (revision.new, store.current):
        assert current.granted
        assert current.granted.rules == (rule,)
    assert store.grant(()).new.granted is None
    assert len(changes) == 3
