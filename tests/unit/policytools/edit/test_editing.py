import pytest

from agent_sandbox.policy import Effect, Layer, Policy, compile_policy
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policytools.edit.editing import AlreadyCovered, Edited, Readers, Values, add_service, edit, merge
from agent_sandbox.policytools.edit.short_rule import read_short_rule
from agent_sandbox.problems import Problem, UserError
from policy_texts import LayerOf
from table_tests import each

TEXT = """\
version: 1
domains:
  - host: a.test
    rules:
      - {methods: [GET], path: {prefix: /v1/}}
      - {methods: [POST], query: {exact: {x: "1"}}}
allow:
  - GET https://b.test/*
deny:
  - DELETE https://b.test/c
"""


@pytest.fixture
def read(layer_of: LayerOf) -> Readers:
    return Readers(file="policy.yaml", layer=layer_of, policy=lambda layer: compile_policy([layer], {}))


def result(read: Readers, line: str, text: str = TEXT) -> Edited | AlreadyCovered:
    verb, _, rule = line.partition(" ")
    return edit(text, read_short_rule(Effect(verb), (rule,)), read)


def problem(read: Readers, line: str, text: str = TEXT) -> Problem:
    with pytest.raises(UserError) as caught:
        result(read, line, text)
    (found,) = caught.value.problems
    return found


def test_adds_the_rule_and_returns_its_line(read: Readers) -> None:
    got = result(read, "allow POST https://b.test/new")
    expected = TEXT.replace("deny:", "  - POST https://b.test/new\ndeny:")
    assert got == Edited(text=expected, line=9)


@pytest.mark.parametrize(
    ("line", "rule", "origin"),
    [
        ("allow GET https://a.test/v1/x", "GET, HEAD a.test/v1/...", 5),
        ("allow HEAD https://a.test/v1/**", "GET, HEAD a.test/v1/...", 5),
        ("allow HEAD https://a.test/**", "", 0),
        ("allow POST https://a.test/?x=1", "POST a.test?x=1", 6),
        ("allow POST https://a.test/", "", 0),  # matches any query, not only `x=1`
        ("allow GET https://b.test/*", "GET, HEAD https://b.test/*", 8),
        ("allow GET https://b.test:8443/*", "", 0),
        ("allow GET http://b.test/a", "", 0),
        ("deny DELETE https://b.test/c", "DELETE https://b.test/c", 10),
        ("deny DELETE https://b.test", "", 0),
        ("deny GET https://c.test/", "", 0),  # nothing allows it yet; the deny also beats future allows
    ],
)
def test_does_not_add_a_rule_that_an_existing_rule_covers(read: Readers, line: str, rule: str, origin: int) -> None:
    got = result(read, line)
    standing = (str(got.rule), got.rule.origin.line) if isinstance(got, AlreadyCovered) else ("", 0)
    assert standing == (rule, origin)


def test_refuses_an_allow_that_a_deny_overrules_and_names_the_deny(read: Readers) -> None:
    got = problem(read, "allow DELETE https://b.test/c")
    what = "DELETE https://b.test/c is denied by policy.yaml:10 (DELETE https://b.test/c), and a deny always wins"
    hint = "narrow or remove that entry; nothing was changed"
    assert got == Problem(where="policy.yaml", what=what, hint=hint)


def test_lists_denies_that_overrule_a_part_of_the_new_allow(read: Readers) -> None:
    got = result(read, "allow DELETE https://b.test/*")
    assert [str(rule) for rule in got.beaten_by] == ["DELETE https://b.test/c"] if isinstance(got, Edited) else False
    got = result(read, "allow DELETE https://b.test:8443/*", TEXT.replace("b.test/c", "b.test:99/c"))
    assert isinstance(got, Edited)
    assert got.beaten_by == ()


def test_ignores_a_deny_whose_query_is_too_long_for_a_request(read: Readers) -> None:
    text = TEXT.replace("b.test/c", f"b.test/c?{'x' * 33_000}")
    got = result(read, "allow DELETE https://b.test/c", text)
    assert isinstance(got, Edited)
    assert got.beaten_by == ()


def test_file_with_an_unsupported_layout_is_not_edited(read: Readers) -> None:
    what = "cannot add GET https://b.test/ to this file automatically"
    expected = Problem(where="policy.yaml", what=what, hint="add `- GET https://b.test/` under `allow` by hand")
    assert problem(read, "allow GET https://b.test/", "{allow}\n") == expected


def test_refuses_an_edit_whose_result_does_not_parse_or_lacks_the_rule(layer_of: LayerOf) -> None:
    texts: list[str] = []

    def forgetful(text: str) -> Layer:
        texts.append(text)
        if len(texts) == 1:
            return layer_of(text)
        raise UserError([Problem(where="policy.yaml:1:1", what="no")])

    for layer in (forgetful, lambda _: layer_of("")):
        read = Readers(file="policy.yaml", layer=layer, policy=lambda layer: compile_policy([layer], {}))
        assert problem(read, "allow GET https://b.test/", "").hint.endswith("by hand")


def test_refuses_an_allow_that_the_effective_policy_still_denies(layer_of: LayerOf) -> None:
    closed = Policy.deny_all("the organisation allows nothing")
    read = Readers(file="policy.yaml", layer=layer_of, policy=lambda _: closed)
    what = "GET https://b.test/ would still be denied: the organisation allows nothing"
    expected = Problem(where="policy.yaml", what=what, hint="nothing was changed")
    assert problem(read, "allow GET https://b.test/", "") == expected


def test_refuses_an_allow_beyond_a_restriction(layer_of: LayerOf) -> None:
    restriction = layer_of("tighten: true\ndomains: [b.test]\n")
    read = Readers(file="policy.yaml", layer=layer_of, policy=lambda layer: compile_policy([restriction, layer], {}))
    what = problem(read, "allow GET https://a.test/v1/x").what
    assert what.startswith("GET https://a.test/v1/x would still be denied: ")


def test_does_not_edit_an_invalid_policy_file(read: Readers) -> None:
    assert problem(read, "allow GET https://b.test/", "allow: [x\n").where == "policy.yaml:2:1"


def layer(text: str) -> Layer:
    return parse_layer(text, name="project", file="policy.yaml", shown="policy.yaml", services=("go", "rust"))


READ = Readers(file="policy.yaml", layer=layer, policy=lambda layer: compile_policy([layer], {}))
SIGN: Values = {"settings": {"sign_commits": "git.key"}}
HOSTS: Values = {"domains": [{"host": "a.test", "rules": [{"methods": ["GET"]}]}, {"host": "b.test"}]}


@each(
    ("text", "expected", "line"),
    [
        ("domains: [a.test]\n", "domains: [a.test]\nsettings:\n  sign_commits: git.key\n", 2),
        ("", "settings:\n  sign_commits: git.key\n", 1),
        ("# mine\n", "# mine\nsettings:\n  sign_commits: git.key\n", 2),
        (
            "settings:\n  reload: watch # x\ndomains: [a.test]\n",
            "settings:\n  reload: watch # x\n  sign_commits: git.key\ndomains: [a.test]\n",
            3,
        ),
        ("settings: {reload: watch}\n", "settings: {reload: watch, sign_commits: git.key}\n", 1),
        ("settings: # none\n# more\n", "settings: # none\n  sign_commits: git.key\n# more\n", 2),
        ("settings: {}\n", "settings: {sign_commits: git.key}\n", 1),
        ("settings:\n  sign_commits: other # x\n", "settings:\n  sign_commits: git.key # x\n", 2),
    ],
)
def test_adds_a_setting_and_keeps_the_rest_of_the_file(text: str, expected: str, line: int) -> None:
    edited = merge(text, SIGN, READ)
    assert edited is not None
    assert (edited.text, edited.line) == (expected, line)


@each(
    ("text", "expected"),
    [
        (
            "version: 1\n",
            "version: 1\ndomains:\n  - host: a.test\n    rules:\n    - methods: [GET]\n  - {host: b.test}\n",
        ),
        (
            "domains:\n- b.test # x\n- {host: b.test}\nversion: 1\n",
            "domains:\n- b.test # x\n- {host: b.test}\n- host: a.test\n  rules:\n  - methods: [GET]\nversion: 1\n",
        ),
        (
            "domains:\n  # - c.test\nversion: 1\n",
            (
                "domains:\n  - host: a.test\n    rules:\n    - methods: [GET]\n  - {host: b.test}\n  # - c.test\n"
                "version: 1\n"
            ),
        ),
        (
            "domains: [b.test]\n",
            "domains: [b.test, {host: a.test, rules: [{methods: [GET]}]}, {host: b.test}]\n",
        ),
    ],
)
def test_adds_entries_that_the_file_does_not_have(text: str, expected: str) -> None:
    edited = merge(text, HOSTS, READ)
    assert edited is not None
    assert edited.text == expected


@each("text", ["settings:\n  sign_commits: git.key\n", "settings: {sign_commits: git.key}\n"])
def test_does_not_change_a_file_that_already_has_the_setting(text: str) -> None:
    assert merge(text, SIGN, READ) is None


@each("text", ["{version: 1}\n", "settings: null\n"])
def test_refuses_to_edit_a_file_with_an_unsupported_layout(text: str) -> None:
    with pytest.raises(UserError) as refused:
        merge(text, SIGN, READ)
    assert str(refused.value) == (
        "policy.yaml: cannot change this file automatically; add by hand: settings: {sign_commits: git.key}"
    )


def test_does_not_write_values_that_the_policy_rejects() -> None:
    with pytest.raises(UserError, match="not a secret name"):
        merge("version: 1\n", {"settings": {"sign_commits": "a b"}}, READ)


@each(
    ("text", "expected", "line"),
    [
        ("domains: [a.test]\n", "domains: [a.test]\nservices:\n  - go\n", 3),
        ("services:\n  - rust  # mine\n", "services:\n  - rust  # mine\n  - go\n", 3),
        ("services: [rust]\n", "services: [rust, go]\n", 1),
    ],
)
def test_adds_one_line_to_the_section(text: str, expected: str, line: int) -> None:
    edited = add_service(text, "go", READ)
    assert (edited.text, edited.line) == (expected, line)


def test_refuses_to_add_a_service_to_an_unsupported_layout() -> None:
    with pytest.raises(UserError) as raised:
        add_service("{domains: [a.test], services}\n", "go", READ)
    what = "policy.yaml: cannot add the service go to this file automatically; add `- go` under `services` by hand"
    assert str(raised.value) == what
