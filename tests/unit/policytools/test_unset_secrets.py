from collections.abc import Callable

from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policytools.unset_secrets import Bound, Wanted, kinds_of, unheard, wanted
from table_tests import each

KEY = "transform: {request: {headers: {X-Key: {secret: key, transform: {type: bearer}}}}}"
AS = "transform: {type: bearer}"
BOTH = f"{{request: {{headers: {{X-Key: {{secret: key, {AS}}}, X-Id: {{secret: id, {AS}}}}}}}}}"
SET = "agent-sandbox secret set"

type PolicyOf = Callable[[str], Policy]


def lines(policy: Policy, *bound: Bound) -> list[str]:
    return [str(one) for one in wanted(policy, bound)]


def key(*hosts: str) -> Bound:
    return Bound(name="key", hosts=hosts)


def test_what_is_put_in_and_is_not_there_is_told_with_what_sets_it(policy_of: PolicyOf) -> None:
    policy = policy_of(f"domains:\n  - a.test\n  - {{host: b.test, {KEY}}}\n")
    origin = Origin(file="policy.yaml", line=3, layer="project")
    assert wanted(policy, []) == [Wanted(secret="key", host="b.test", origin=origin, hosts=("b.test",))]
    assert lines(policy) == [f"policy.yaml:3 needs key for b.test: {SET} key --host b.test"]


def test_nothing_is_told_of_a_secret_that_may_go_there(policy_of: PolicyOf) -> None:
    policy = policy_of(f"domains:\n  - {{host: b.test, {KEY}}}\n")
    assert lines(policy, key("a.test", "b.test"), Bound(name="other", hosts=("c.test",))) == []


def test_one_that_may_go_elsewhere_keeps_its_hosts(policy_of: PolicyOf) -> None:
    policy = policy_of(f"domains:\n  - {{host: b.test, {KEY}}}\n  - {{host: c.test, {KEY}}}\n")
    hosts = "--host a.test --host b.test --host c.test"
    assert lines(policy, key("a.test")) == [
        f"policy.yaml:2 needs key for b.test: {SET} key {hosts}",
        f"policy.yaml:3 needs key for c.test: {SET} key {hosts}",
    ]


def test_rules_of_one_host_are_told_once_by_the_first(policy_of: PolicyOf) -> None:
    rules = "rules: [{methods: [GET]}, {methods: [PUT], path: {exact: /x}}]"
    policy = policy_of(f"domains:\n  - {{host: b.test, {KEY}, {rules}}}\n")
    assert lines(policy) == [f"policy.yaml:2 needs key for b.test: {SET} key --host b.test"]


def test_each_secret_of_a_request_is_told_by_name(policy_of: PolicyOf) -> None:
    policy = policy_of(f"domains:\n  - {{host: b.test, transform: {BOTH}}}\n")
    assert lines(policy) == [
        f"policy.yaml:2 needs id for b.test: {SET} id --host b.test",
        f"policy.yaml:2 needs key for b.test: {SET} key --host b.test",
    ]
    assert lines(policy, key("b.test")) == lines(policy)[:1]


@each("bound", [(), (key("b.test"),)])
def test_of_a_wildcard_a_host_has_to_be_named(bound: tuple[Bound, ...], policy_of: PolicyOf) -> None:
    policy = policy_of(f"domains:\n  - {{host: '*.b.test', {KEY}}}\n")
    told = f"policy.yaml:2 needs key for *.b.test: choose the host: {SET} key --host HOST"
    assert lines(policy, *bound) == [told]
    assert lines(policy, key("x.b.test")) == []


def test_an_address_is_written_as_options_take_it(policy_of: PolicyOf) -> None:
    policy = policy_of(f"domains:\n  - {{host: '[2606:4700::1]', {KEY}}}\n")
    assert [one.command for one in wanted(policy, [])] == [f"{SET} key --host [2606:4700::1]"]


def test_a_service_is_named_where_it_wants_one() -> None:
    origin = Origin(file="services/forge.yaml", line=7, layer="service forge")
    told = f"service forge needs key for b.test: {SET} key --host b.test"
    assert str(Wanted(secret="key", host="b.test", origin=origin, hosts=("b.test",))) == told


@each(
    ("name", "hosts", "told"),
    [
        ("key", ("b.test", "x.c.test"), []),
        ("key", ("a.test",), ["the policy injects key for *.c.test, b.test, but not for a.test"]),
        ("kye", ("b.test",), ["no rule of the policy injects kye yet; they inject id, key"]),
    ],
)
def test_what_goes_nowhere_is_told(policy_of: PolicyOf, name: str, hosts: tuple[str, ...], told: list[str]) -> None:
    policy = policy_of(f"domains:\n  - {{host: b.test, transform: {BOTH}}}\n  - {{host: '*.c.test', {KEY}}}\n")
    assert list(unheard(policy, Bound(name=name, hosts=hosts))) == told


def test_a_policy_that_wants_none_says_no_names(policy_of: PolicyOf) -> None:
    assert list(unheard(policy_of("domains: [a.test]"), key("a.test"))) == ["no rule of the policy injects key yet"]


def test_a_key_that_signs_commits_is_of_that_kind(policy_of: PolicyOf) -> None:
    transform = "{request: {headers: {X-Key: {secret: a, transform: {type: raw}}}}}"
    text = f"settings: {{sign_commits: a}}\ndomains: [{{host: a.test, transform: {transform}}}]\n"
    assert kinds_of(policy_of(text)) == {"a": ("raw", "ssh-sign")}


def test_a_missing_signing_key_is_told_with_what_sets_it_up(policy_of: PolicyOf) -> None:
    policy = policy_of("domains: [a.test]\nsettings: {sign_commits: key}\n")
    own = "agent-sandbox.internal"
    line = f"settings.sign_commits needs key for {own}: agent-sandbox secret setup signing"
    assert (lines(policy), lines(policy, key("a.test")), lines(policy, key(own))) == ([line], [line], [])
    assert wanted(policy, [])[0].rule == "settings.sign_commits"
