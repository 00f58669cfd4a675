from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.hostpattern import parse_host_pattern
from agent_sandbox.policy.rule import Conditions, Rule
from agent_sandbox.policy.ruleset import RuleSet


def the_rule(line: int) -> Rule:
    origin = Origin(file="policy.yaml", line=line, layer="project")
    return Rule(effect=Effect.ALLOW, conditions=Conditions(host=parse_host_pattern("a.test")), origin=origin)


def test_two_layers_say_what_each_of_them_says() -> None:
    both = RuleSet(rules=(the_rule(1),)) + RuleSet(rules=(the_rule(2),))
    assert both == RuleSet(rules=(the_rule(1), the_rule(2)))


def test_a_setting_of_the_higher_layer_stands() -> None:
    lower, higher, silent = RuleSet(block_status=418), RuleSet(block_status=403), RuleSet()
    assert [(lower + higher).block_status, (lower + silent).block_status] == [403, 418]
