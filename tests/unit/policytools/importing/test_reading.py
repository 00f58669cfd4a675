import pytest

from agent_sandbox.policytools.importing.reading import read_old
from agent_sandbox.problems import UserError


def test_parts_are_read_with_their_lines() -> None:
    old = read_old("services: [x]\ndomains:\n  - a.test\n", file="old.yaml")
    assert (old.section("services"), old.section("domains"), old.section("other")) == (["x"], ["a.test"], [])
    assert (old.where("domains", 0), old.where("domains", 9), old.where()) == ("old.yaml:3", "old.yaml:3", "old.yaml:1")


@pytest.mark.parametrize("text", ["", "# nothing\n", "domains:\n"])
def test_an_empty_file_says_nothing(text: str) -> None:
    assert read_old(text, file="old.yaml").section("domains") == []


def test_everything_of_a_wrong_shape_is_remembered() -> None:
    old = read_old("domains: x\nrules: {a: 1, z: 2}\nhost: 3\nmethods: [' ']\n", file="old.yaml")
    assert old.section("domains") == []
    old.mapping(old.value["rules"], frozenset("ab"), "rules")
    assert old.mapping("x", frozenset("a"), "rules") == {}
    assert old.word(3, "host") == ""
    assert old.words(old.value["methods"], "methods") == [""]
    assert old.words(" a ", "methods") == ["a"]
    assert [str(problem) for problem in old.problems] == [
        "old.yaml:1: `domains` is no list",
        "old.yaml:2: unknown key `z`; known are a, b",
        "old.yaml:2: keys and values are wanted here",
        "old.yaml:3: a text is wanted here",
        "old.yaml:4: a text is wanted here",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a\n", "old.yaml:1: is no policy: keys and values are wanted"),
        ("a: &x 1\nb: *x\n", "old.yaml:1:4: an anchor (`&x`); take it out; each value is written where it counts"),
        ("a: [\n", "old.yaml:2:1: is no YAML here: "),
    ],
)
def test_what_is_no_plain_yaml_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UserError) as caught:
        read_old(text, file="old.yaml")
    assert str(caught.value.problems[0]).startswith(problem)
