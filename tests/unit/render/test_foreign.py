import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.render.foreign import MAX_DEPTH, load_foreign

HINT = "agent-sandbox init AGENT shows what it should be"
# Each line doubles the one before: a reader that merges them runs out of memory.
BOMB = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 60))


def test_every_scalar_is_text() -> None:
    value = load_foreign("{a: 1, b: yes, c: [null, 1:30]}", file="x.yml")
    assert value == {"a": "1", "b": "yes", "c": ["null", "1:30"]}


@pytest.mark.parametrize("opening", ["[", "- ", "{a: "])
def test_what_is_nested_without_end_is_a_problem(opening: str) -> None:
    with pytest.raises(UserError) as raised:
        load_foreign(opening * 100_000, file="x.yml")
    column = MAX_DEPTH * len(opening) + 1
    assert str(raised.value) == f"x.yml:1:{column}: this is more than {MAX_DEPTH} levels deep; {HINT}"


def test_what_is_as_deep_as_may_be_is_read() -> None:
    value = load_foreign("[" * MAX_DEPTH + "]" * MAX_DEPTH, file="x.yml")
    assert str(value) == "[" * MAX_DEPTH + "]" * MAX_DEPTH


def test_a_merge_key_is_a_word_and_merges_nothing() -> None:
    assert len(load_foreign(BOMB, file="x.yml")) == 60


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1\nb: 2\n", "x.yml:2:2: this is no YAML: did not find expected ',' or ']'"),
        ("&a [*a]", "x.yml:1:1: this is no YAML: found unconstructable recursive node"),
        ("\x00", "x.yml: this is no YAML: "),
    ],
)
def test_what_is_no_yaml_is_a_problem_with_its_place(text: str, expected: str) -> None:
    with pytest.raises(UserError) as raised:
        load_foreign(text, file="x.yml")
    assert str(raised.value).startswith(expected)
    assert str(raised.value).endswith(f"; {HINT}")
