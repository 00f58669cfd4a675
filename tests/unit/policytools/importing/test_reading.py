import pytest

from agent_sandbox.policytools.importing.reading import read_old
from agent_sandbox.problems import UserError


def test_reads_sections_with_their_lines() -> None:
    old = read_old("services: [x]\ndomains:\n  - a.test\n", file="old.yaml")
    assert (old.section("services"), old.section("domains"), old.section("other")) == (["x"], ["a.test"], [])
    assert (old.where("domains", 0), old.where("domains", 9), old.where()) == ("old.yaml:3", "old.yaml:3", "old.yaml:1")


@pytest.mark.parametrize("text", ["", "# nothing\n", "domains:\n"])
def test_an_empty_file_has_empty_sections(text: str) -> None:
    assert read_old(text, file="old.yaml").section("domains") == []


def test_collects_all_values_of_the_wrong_type_as_problems() -> None:
    old = read_old("domains: x\nrules: {a: 1, z: 2}\nhost: 3\nmethods: [' ']\n", file="old.yaml")
    assert old.section("domains") == []
    old.mapping(old.value["rules"], frozenset("ab"), "rules")
    assert old.mapping("x", frozenset("a"), "rules") == {}
    assert old.word(3, "host") == ""
    assert old.words(old.value["methods"], "methods") == [""]
    assert old.words(" a ", "methods") == ["a"]
    assert [str(problem) for problem in old.problems] == [
        "old.yaml:1: `domains` has to be a list",
        "old.yaml:2: unknown key `z`; known: a, b",
        "old.yaml:2: keys and values expected here",
        "old.yaml:3: `host` has to be text, not `3`; write `host: example.com`",
        "old.yaml:4: `methods` is empty; write `methods: [GET]`",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a\n", "old.yaml:1: not a policy: keys and values expected"),
        ("a: &x 1\nb: *x\n", "old.yaml:1:4: an anchor (`&x`); remove it; write each value where it is used"),
        ("a: [\n", "old.yaml:2:1: invalid YAML: "),
    ],
)
def test_rejects_invalid_yaml_and_anchors(text: str, problem: str) -> None:
    with pytest.raises(UserError) as caught:
        read_old(text, file="old.yaml")
    assert str(caught.value.problems[0]).startswith(problem)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("null", "`host` is missing; write `host: example.com`"),
        ("''", "`host` is empty; write `host: example.com`"),
        ("true", "`host` has to be text, not `true`; write `host: example.com`"),
        ("[a.test]", "`host` has to be text, not a list; write `host: example.com`"),
        ("{a: b}", "`host` has to be text, not a mapping; write `host: example.com`"),
    ],
)
def test_reports_a_value_that_is_not_text_with_a_hint(written: str, problem: str) -> None:
    old = read_old(f"domains: []\nhost: {written}\n", file="old.yaml")
    assert old.word(old.value["host"], "host") == ""
    assert [str(one) for one in old.problems] == [f"old.yaml:2: {problem}"]


@pytest.mark.parametrize(("written", "flag"), [("true", True), ("false", False)])
def test_a_flag_is_true_or_false(written: str, flag: bool) -> None:  # noqa: FBT001 - a case
    old = read_old(f"readonly: {written}\n", file="old.yaml")
    assert (old.flag(old.value["readonly"], "readonly"), old.problems) == (flag, [])


@pytest.mark.parametrize(("written", "shown"), [('"yes"', "'yes'"), ("1", "`1`"), ("null", "an empty value")])
def test_rejects_a_flag_that_is_not_a_boolean(written: str, shown: str) -> None:
    old = read_old(f"readonly: {written}\n", file="old.yaml")
    assert old.flag(old.value["readonly"], "readonly") is False
    hint = "write `readonly: true`, or remove it"
    assert [str(one) for one in old.problems] == [
        f"old.yaml:1: `readonly` has to be `true` or `false`, not {shown}; {hint}"
    ]
