import pytest

from agent_sandbox.policy.compiler import conflicts
from agent_sandbox.policy.compiler.conflicts import FEWER, HINT, TOO_MANY, conflicting, shared_variables
from agent_sandbox.policy.compiler.expand import expand
from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policyfile import parse_layer
from table_tests import each


def layer(*entries: str) -> Layer:
    """Return a layer with a different secret for each entry."""
    keys = (f"{{secret: s{number}, transform: {{type: bearer}}}}" for number in range(len(entries)))
    lines = [
        f"  - {{transform: {{request: {{headers: {{X: {key}}}}}}}, {entry}}}"
        for key, entry in zip(keys, entries, strict=True)
    ]
    return parse_layer("\n".join(("domains:", *lines, "")), name="project", file="p", shown="p", services=())


def found(*entries: str) -> list[str]:
    return [str(problem) for problem in conflicting(expand(layer(*entries), {}).rules)]


def rule(path: str, more: str = "") -> str:
    return f"host: a.test, rules: [{{path: {path}{more}}}]"


TOLD = f"p:3: secret s1 in x would be injected into the same requests as secret s0 in x by p:2; {HINT}"


@each(
    ("one", "other"),
    [
        ("host: a.test", "host: a.test"),
        ("host: .a.test", "host: '*.a.test'"),
        ("host: a.test, ports: [443, 8443]", "host: a.test"),
        (rule("{exact: /a}"), rule("{exact: /a}", ", methods: [GET]")),
        (rule("{prefix: /a}"), rule("{prefix: /a}")),
        (rule("{glob: /a/*}"), rule("{glob: /*/a}")),
        (rule("{glob: /a/**}"), rule("{glob: /*/bb}")),
        (rule("{exact: /a}", ", query: {exact: {x: one}}"), rule("{exact: /a}", ", query: {exact: {x: one}}")),
        (rule("{exact: /a}", ", headers: {x: one}"), rule("{exact: /a}")),
    ],
)
def test_reports_equally_specific_rules_that_inject_different_secrets(one: str, other: str) -> None:
    assert found(one, other) == [TOLD]


@each(
    ("one", "other"),
    [
        ("host: a.test", "host: b.test"),
        ("host: a.test", "host: .a.test"),
        ("host: .a.test", "host: .b.a.test"),
        ("host: a.test, ports: [8443]", "host: a.test"),
        (rule("{exact: /a}"), rule("{exact: /b}")),
        (rule("{exact: /a}"), rule("{prefix: /a}")),
        (rule("{prefix: /a}"), rule("{prefix: /a/b}")),
        (rule("{prefix: /abc}"), rule("{glob: '/a/*'}")),
        (rule("{glob: /a/*}"), rule("{glob: /b/*}")),
        (rule("{exact: /a}", ", methods: [GET]"), rule("{exact: /a}", ", methods: [POST]")),
        (rule("{exact: /a}", ", query: {exact: {x: one}}"), rule("{exact: /a}", ", query: {exact: {x: two}}")),
        (rule("{exact: /a}", ", query: {exact: {x: one}}"), rule("{exact: /a}")),
    ],
)
def test_accepts_rules_that_are_disjoint_or_differ_in_specificity(one: str, other: str) -> None:
    assert found(one, other) == []


def test_the_same_secret_twice_is_no_conflict() -> None:
    rules = expand(layer("host: a.test"), {}).rules
    assert list(conflicting([*rules, *rules])) == []


@each(
    ("shim", "other", "secrets", "differ"),
    [
        ("{kind: env, name: A_KEY, prefix: a-}", "{kind: env, name: B_KEY, also: [C_KEY]}", "ss", 0),
        ("{kind: env, name: A_KEY}", "{kind: env, name: A_KEY}", "st", 1),
    ],
)
def test_ignores_different_client_shims_of_the_same_secret(shim: str, other: str, secrets: str, differ: int) -> None:
    keys = (
        f"{{secret: {secret}, transform: {{type: raw}}, client_shim: {one}}}"
        for secret, one in zip(secrets, (shim, other), strict=True)
    )
    lines = (f"  - {{host: a.test, transform: {{request: {{headers: {{X: {key}}}}}}}}}" for key in keys)
    text = "\n".join(("domains:", *lines, ""))
    policy = parse_layer(text, name="project", file="p", shown="p", services=())
    assert len(list(conflicting(expand(policy, {}).rules))) == differ


def test_reports_more_overlapping_globs_than_it_compares(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = [rule(f"{{glob: /{letter}/*}}") for letter in "abc"]
    assert found(*apart) == []
    monkeypatch.setattr(conflicts, "MAX_COMPARED", 2)
    assert found(*apart) == [f"p:4: {TOO_MANY}; {FEWER}"]


def test_does_not_count_pairs_that_differ_without_comparing_globs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conflicts, "MAX_COMPARED", 1)
    same = "{glob: /a/*}"
    assert found(rule(same, ", methods: [GET]"), rule(same, ", methods: [POST]"), rule("{glob: /ab/*}")) == []
    rules = expand(layer(rule(same)), {}).rules
    assert list(conflicting(rules * 3)) == []


def variables(*entries: str) -> list[str]:
    """Return the problems of entries that each inject a secret, as `HOST SECRET VARIABLE`."""
    lines = ["domains:"]
    for host, secret, variable in map(str.split, entries):
        key = f"{{secret: {secret}, transform: {{type: bearer}}, client_shim: {{kind: env, name: {variable}}}}}"
        lines.append(f"  - {{host: {host}, transform: {{request: {{headers: {{X: {key}}}}}}}}}")
    written = parse_layer("\n".join((*lines, "")), name="project", file="p", shown="p", services=())
    return [str(problem) for problem in shared_variables(expand(written, {}).rules)]


def test_reports_a_variable_that_two_secrets_would_share() -> None:
    assert variables("a.test one A_TOKEN", "b.test one A_TOKEN", "c.test two B_TOKEN") == []
    hint = "write another `client_shim: {kind: env, name: NAME}` in one of the two"
    assert variables("a.test one A_TOKEN", "b.test two B_TOKEN", "c.test three A_TOKEN") == [
        f"p:4: the variable A_TOKEN cannot be a placeholder for both three and one (p:2); {hint}"
    ]
