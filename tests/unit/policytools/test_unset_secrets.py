from agent_sandbox.policy.decision import Origin
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policytools.unset_secrets import Bound, Wanted, kinds_of, unheard, wanted
from policy_texts import PolicyOf
from table_tests import each

KEY = "transform: {request: {headers: {X-Key: {secret: key, transform: {type: bearer}}}}}"
AS = "transform: {type: bearer}"
BOTH = f"{{request: {{headers: {{X-Key: {{secret: key, {AS}}}, X-Id: {{secret: id, {AS}}}}}}}}}"
SET = "agent-sandbox secret set"


def lines(policy: Policy, *bound: Bound) -> list[str]:
    return [str(one) for one in wanted(policy, bound)]


def key(*hosts: str) -> Bound:
    return Bound(name="key", hosts=hosts)


def test_lists_an_unset_secret_with_the_command_that_sets_it(policy_of: PolicyOf) -> None:
    policy = policy_of(f"domains:\n  - a.test\n  - {{host: b.test, {KEY}}}\n")
    origin = Origin(file="policy.yaml", line=3, layer="project")
    assert wanted(policy, []) == [Wanted(secret="key", host="b.test", origin=origin, hosts=("b.test",))]
    assert lines(policy) == [f"policy.yaml:3 needs key for b.test: {SET} key --host b.test"]


def test_does_not_list_a_secret_that_is_bound_to_the_host(policy_of: PolicyOf) -> None:
    policy = policy_of(f"domains:\n  - {{host: b.test, {KEY}}}\n")
    assert lines(policy, key("a.test", "b.test"), Bound(name="other", hosts=("c.test",))) == []


def test_the_command_for_a_secret_bound_to_another_host_keeps_that_host(policy_of: PolicyOf) -> None:
    policy = policy_of(f"domains:\n  - {{host: b.test, {KEY}}}\n  - {{host: c.test, {KEY}}}\n")
    hosts = "--host a.test --host b.test --host c.test"
    assert lines(policy, key("a.test")) == [
        f"policy.yaml:2 needs key for b.test: {SET} key {hosts}",
        f"policy.yaml:3 needs key for c.test: {SET} key {hosts}",
    ]


def test_lists_one_secret_once_for_several_rules_of_a_host(policy_of: PolicyOf) -> None:
    rules = "rules: [{methods: [GET]}, {methods: [PUT], path: {exact: /x}}]"
    policy = policy_of(f"domains:\n  - {{host: b.test, {KEY}, {rules}}}\n")
    assert lines(policy) == [f"policy.yaml:2 needs key for b.test: {SET} key --host b.test"]


def test_lists_each_secret_of_a_request(policy_of: PolicyOf) -> None:
    policy = policy_of(f"domains:\n  - {{host: b.test, transform: {BOTH}}}\n")
    assert lines(policy) == [
        f"policy.yaml:2 needs id for b.test: {SET} id --host b.test",
        f"policy.yaml:2 needs key for b.test: {SET} key --host b.test",
    ]
    assert lines(policy, key("b.test")) == lines(policy)[:1]


@each("bound", [(), (key("b.test"),)])
def test_asks_for_a_host_below_a_wildcard(bound: tuple[Bound, ...], policy_of: PolicyOf) -> None:
    policy = policy_of(f"domains:\n  - {{host: '*.b.test', {KEY}}}\n")
    told = f"policy.yaml:2 needs key for *.b.test: choose the host: {SET} key --host HOST"
    assert lines(policy, *bound) == [told]
    assert lines(policy, key("x.b.test")) == []


def test_writes_an_ipv6_address_in_brackets(policy_of: PolicyOf) -> None:
    policy = policy_of(f"domains:\n  - {{host: '[2606:4700::1]', {KEY}}}\n")
    assert [one.command for one in wanted(policy, [])] == [f"{SET} key --host [2606:4700::1]"]


def test_names_the_service_that_needs_a_secret() -> None:
    origin = Origin(file="services/forge.yaml", line=7, layer="service forge")
    told = f"service forge needs key for b.test: {SET} key --host b.test"
    assert str(Wanted(secret="key", host="b.test", origin=origin, hosts=("b.test",))) == told


@each(
    ("name", "hosts", "told"),
    [
        ("key", ("b.test", "x.c.test"), []),
        ("key", ("a.test",), ["the policy injects key for *.c.test, b.test, but not for a.test"]),
        ("kye", ("b.test",), ["no rule of the policy injects kye yet; they inject id, key (docs/secrets.md)"]),
    ],
)
def test_reports_hosts_and_secrets_that_no_rule_uses(
    policy_of: PolicyOf, name: str, hosts: tuple[str, ...], told: list[str]
) -> None:
    policy = policy_of(f"domains:\n  - {{host: b.test, transform: {BOTH}}}\n  - {{host: '*.c.test', {KEY}}}\n")
    assert list(unheard(policy, Bound(name=name, hosts=hosts))) == told


def test_a_policy_without_secrets_lists_no_secret_names(policy_of: PolicyOf) -> None:
    assert list(unheard(policy_of("domains: [a.test]"), key("a.test"))) == [
        "no rule of the policy injects key yet (docs/secrets.md)"
    ]


def test_a_key_that_signs_commits_has_the_kind_ssh_sign(policy_of: PolicyOf) -> None:
    transform = "{request: {headers: {X-Key: {secret: a, transform: {type: raw}}}}}"
    text = f"settings: {{sign_commits: a}}\ndomains: [{{host: a.test, transform: {transform}}}]\n"
    assert kinds_of(policy_of(text)) == {"a": ("raw", "ssh-sign")}


def test_lists_a_missing_signing_key_with_the_command_that_sets_it_up(policy_of: PolicyOf) -> None:
    policy = policy_of("domains: [a.test]\nsettings: {sign_commits: key}\n")
    own = "agent-sandbox.internal"
    line = f"settings.sign_commits needs key for {own}: agent-sandbox secret setup signing"
    assert (lines(policy), lines(policy, key("a.test")), lines(policy, key(own))) == ([line], [line], [])
    assert wanted(policy, [])[0].rule == "settings.sign_commits"
