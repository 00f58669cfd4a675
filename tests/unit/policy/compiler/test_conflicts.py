import pytest

from agent_sandbox.policy.compiler import conflicts
from agent_sandbox.policy.compiler.conflicts import FEWER, HINT, TOO_MANY, conflicting
from agent_sandbox.policy.compiler.expand import expand
from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policyfile import parse_layer
from table_tests import each


def layer(*entries: str) -> Layer:
    """A policy with a secret of its own for each entry."""
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
def test_equally_specific_rules_that_put_in_different_secrets_are_told(one: str, other: str) -> None:
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
def test_others_are_told_apart(one: str, other: str) -> None:
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
def test_the_variable_of_a_placeholder_is_no_conflict(shim: str, other: str, secrets: str, differ: int) -> None:
    keys = (
        f"{{secret: {secret}, transform: {{type: raw}}, client_shim: {one}}}"
        for secret, one in zip(secrets, (shim, other), strict=True)
    )
    lines = (f"  - {{host: a.test, transform: {{request: {{headers: {{X: {key}}}}}}}}}" for key in keys)
    text = "\n".join(("domains:", *lines, ""))
    policy = parse_layer(text, name="project", file="p", shown="p", services=())
    assert len(list(conflicting(expand(policy, {}).rules))) == differ


def test_more_globs_than_are_compared_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = [rule(f"{{glob: /{letter}/*}}") for letter in "abc"]
    assert found(*apart) == []
    monkeypatch.setattr(conflicts, "MAX_COMPARED", 2)
    assert found(*apart) == [f"p:4: {TOO_MANY}; {FEWER}"]


def test_what_is_told_apart_without_a_look_at_paths_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conflicts, "MAX_COMPARED", 1)
    same = "{glob: /a/*}"
    assert found(rule(same, ", methods: [GET]"), rule(same, ", methods: [POST]"), rule("{glob: /ab/*}")) == []
    rules = expand(layer(rule(same)), {}).rules
    assert list(conflicting(rules * 3)) == []
