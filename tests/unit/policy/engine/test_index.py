from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.index import build_index
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach, parse_host_pattern


def the_rule(host: str, line: int = 1) -> Rule:
    origin = Origin(file="policy.yaml", line=line, layer="project")
    return Rule(effect=Effect.ALLOW, conditions=Conditions(host=parse_host_pattern(host)), origin=origin)


def hosts_for(host: str, *patterns: str) -> list[str]:
    index = build_index(map(the_rule, patterns))
    return [str(rule.conditions.host) for rule in index.rules_for(host)]


def test_lists_rules_for_the_most_specific_host_first() -> None:
    patterns = ("*.test.example", "a.b.test.example", ".b.test.example", "*.a.b.test.example", "b.test.example")
    assert hosts_for("a.b.test.example", *patterns) == ["a.b.test.example", ".b.test.example", "*.test.example"]


def test_a_dot_pattern_matches_its_apex_and_a_star_pattern_does_not() -> None:
    assert hosts_for("wild.test", "*.wild.test", ".wild.test") == [".wild.test"]


def test_a_host_that_no_pattern_matches_has_no_rules() -> None:
    assert hosts_for("evilwild.test", "*.wild.test", "wild.test") == []


def test_an_address_has_only_the_rules_that_name_it() -> None:
    assert hosts_for("2001:db8::1", "[2001:db8::1]", "a.test") == ["2001:db8::1"]


def test_an_address_has_the_rules_of_its_networks() -> None:
    pattern = HostPattern(reach=Reach.NETWORK, name="10.1.0.0/16")
    origin = Origin(file="policy.yaml", line=1, layer="project")
    rules = [Rule(effect=Effect.ALLOW, conditions=Conditions(host=pattern), origin=origin), the_rule("10.1.2.3", 2)]
    index = build_index(rules)
    found = {host: [str(rule.conditions.host) for rule in index.rules_for(host)] for host in ("10.1.2.3", "10.2.2.3")}
    assert found == {"10.1.2.3": ["10.1.2.3", "10.1.0.0/16"], "10.2.2.3": []}


def test_a_single_star_matches_every_name_and_no_address() -> None:
    assert hosts_for("a.test", "*", "a.test") == ["a.test", "*"]
    assert hosts_for("203.0.113.7", "*") == []


def test_naming_returns_only_rules_for_the_exact_host() -> None:
    one, two, beside, above = the_rule("two.test", 1), the_rule("two.test", 2), the_rule("one.test"), the_rule("*")
    index = build_index([two, above, beside, one])
    found = [index.naming(host) for host in ("one.test", "two.test", "none.test")]
    assert found == [(beside,), (one, two), ()]
    assert [index.rules_about(host, ("/",)) for host in ("one.test", "two.test")] == [
        (beside, above),
        (one, two, above),
    ]


def test_finds_rules_for_a_path_by_exact_host_and_by_wildcard() -> None:
    for patterns, found in ((("a.test",), ["a.test"]), (("a.test", "*"), ["a.test", "*"])):
        index = build_index(map(the_rule, patterns))
        assert [str(rule.conditions.host) for rule in index.rules_about("a.test", ("/",))] == found
