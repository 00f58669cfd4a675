from dataclasses import replace

from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.restrict import Restriction
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.engine.rule_set import Budgeted, RuleSet
from agent_sandbox.policy.http.body_size import Budget
from agent_sandbox.policy.match.host_list import parse_host_list
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.match.host_service import Target, host_service_row
from table_tests import each

A_TEST = parse_host_pattern("a.test")


def the_rule(line: int, *, effect: Effect = Effect.ALLOW, host: str = "a.test", layer: str = "project") -> Rule:
    origin = Origin(file="policy.yaml", line=line, layer=layer)
    return Rule(effect=effect, conditions=Conditions(host=parse_host_pattern(host)), origin=origin)


def test_adding_rule_sets_concatenates_their_rules() -> None:
    both = RuleSet(rules=(the_rule(1),)) + RuleSet(rules=(the_rule(2),))
    assert both == RuleSet(rules=(the_rule(1), the_rule(2)))


def test_a_budget_is_for_the_sandbox_or_a_service() -> None:
    origin = the_rule(1).origin
    assert Budgeted("k", origin, Budget()).whose == "the sandbox"
    assert Budgeted("k", origin, Budget(), "service npm").whose == "the service npm"


def test_a_setting_of_the_higher_layer_wins() -> None:
    lower, higher = RuleSet(settings={"block_status": 418, "inspect": False}), RuleSet(settings={"block_status": 403})
    assert (lower + higher).settings == {"block_status": 403, "inspect": False}
    assert (lower + RuleSet()).settings == lower.settings


def test_keeps_host_services_of_all_layers() -> None:
    rows = [host_service_row("x", Target(to=f"{name}.test", port=1), ()) for name in "ab"]
    both = RuleSet(host_services=(rows[0],)) + RuleSet(host_services=(rows[1],))
    assert both.host_services == tuple(rows)


def test_keeps_always_inspects_from_any_layer() -> None:
    insisting, silent = RuleSet(always_inspects=True), RuleSet()
    both = [insisting + silent, silent + insisting, silent + silent]
    assert [rules.always_inspects for rules in both] == [True, True, False]


def test_a_replaced_host_drops_lower_allows_of_exactly_that_host() -> None:
    deny, other = the_rule(2, effect=Effect.DENY), the_rule(3, host="*.a.test")
    higher = RuleSet(rules=(the_rule(4),), replaced=frozenset({A_TEST}))
    both = RuleSet(rules=(the_rule(1), deny, other)) + higher
    assert both == RuleSet(rules=(deny, other, the_rule(4)), replaced=frozenset({A_TEST}))


@each(
    ("replaced", "lower", "left"),
    [
        ("*.a.test", "b.a.test", None),
        ("*.a.test", "*.b.a.test", None),
        ("*.a.test", ".b.a.test", None),
        (".a.test", "a.test", None),
        (".a.test", "*.a.test", None),
        ("*", "b.a.test", None),
        ("*.a.test", "a.test", "a.test"),
        ("*.a.test", "b.ba.test", "b.ba.test"),
        ("*", "203.0.113.7", "203.0.113.7"),
        # `.a.test` is `a.test` and `*.a.test`.
        ("*.a.test", ".a.test", "a.test"),
        ("a.test", ".a.test", "*.a.test"),
        # Wider patterns stay unchanged.
        ("b.a.test", "*.a.test", "*.a.test"),
        ("*.b.a.test", ".a.test", ".a.test"),
    ],
)
def test_a_replaced_wildcard_drops_every_lower_allow_that_it_contains(
    replaced: str, lower: str, left: str | None
) -> None:
    higher = RuleSet(replaced=frozenset({parse_host_pattern(replaced)}))
    got = (RuleSet(rules=(the_rule(1, host=lower),)) + higher).rules
    assert [str(rule.conditions.host) for rule in got] == ([left] if left else [])


def test_a_replaced_host_is_removed_from_a_lower_host_list() -> None:
    listed, _ = parse_host_list("a.test\nb.test", name="hosts.txt")
    rule = the_rule(1)
    lower = RuleSet(rules=(replace(rule, conditions=Conditions(host=listed)), the_rule(2, host="c.test")))
    left = (lower + RuleSet(replaced=frozenset({A_TEST, "service x"}))).rules
    assert [rule.conditions.host for rule in left] == [listed.without([A_TEST]), parse_host_pattern("c.test")]


def test_a_replaced_service_drops_the_rules_of_that_service_in_lower_layers() -> None:
    taken, own = the_rule(1, layer="service x"), the_rule(2, layer="x")
    assert (RuleSet(rules=(taken, own)) + RuleSet(replaced=frozenset({"service x"}))).rules == (own,)


def test_keeps_restrictions_of_all_layers() -> None:
    one, other = (Restriction(origin=the_rule(line).origin, rules=(the_rule(line),)) for line in (1, 2))
    both = RuleSet(restrictions=(one,)) + RuleSet(restrictions=(other,), replaced=frozenset({A_TEST}))
    assert both.restrictions == (one, other)
