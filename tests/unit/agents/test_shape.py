import re
from typing import Any

from agent_sandbox.agents.shape import Keys, OneOf, Plain, faults
from table_tests import each

WORD = re.compile("[a-z]+")
SHAPE: dict[str, Any] = {
    "word": WORD,
    "words?": [WORD],
    "free?": Keys(WORD, "a word", WORD),
    "plain?": Plain(),
    "one?": OneOf(choices={"a": WORD, "b": WORD}, besides={"c": [WORD]}),
}


@each(
    "value",
    [
        {"word": "x"},
        {"word": "x", "words": ["a", "b"]},
        {"word": "x", "free": {}},
        {"word": "x", "free": {"k": "v"}},
        {"word": "x", "plain": ""},
        {"word": "x", "plain": True},
        {"word": "x", "plain": []},
        {"word": "x", "plain": ["a"]},
        {"word": "x", "one": {"a": "x"}},
        {"word": "x", "one": {"b": "x", "c": ["y"]}},
    ],
)
def test_a_valid_value_has_no_problems(value: Any) -> None:  # noqa: ANN401 - rows
    assert [*faults(value, SHAPE)] == []


@each(
    ("value", "expected"),
    [
        ({}, ["`word` is missing in the manifest"]),
        ({"word": "X"}, ["`word` is 'X', which does not match [a-z]+"]),
        ({"word": 1}, ["`word` is 1, which does not match [a-z]+"]),
        ({"word": "x", "wrods": []}, ["unknown key `wrods` in the manifest; did you mean `words`?"]),
        ({"word": "x", 1: []}, ["unknown key `1` in the manifest"]),
        ({"word": "x", "words": ["a", "B"]}, ["`words.1` is 'B', which does not match [a-z]+"]),
        ({"word": "x", "plain": 1}, ["`plain` must be text, true, false or a list of texts"]),
        ({"word": "x", "plain": None}, ["`plain` must be text, true, false or a list of texts"]),
        ({"word": "x", "plain": [1]}, ["`plain` must be text, true, false or a list of texts"]),
        ({"word": "x", "plain": {}}, ["`plain` must be text, true, false or a list of texts"]),
        ({"word": "x", "words": []}, ["`words` must be a list of at least one"]),
        ({"word": "x", "free": {"K": "v", "k": 1}}, [
            "`free` has the name 'K', which is not a word",
            "`free.k` is 1, which does not match [a-z]+",
        ]),
        ({"word": "x", "free": None}, ["`free` must be a mapping"]),
        ({"word": "x", "one": {}}, ["`one` must have exactly one of a, b"]),
        ({"word": "x", "one": {"a": "x", "b": "y"}}, ["`one` must have exactly one of a, b"]),
        ({"word": "x", "one": {"a": "x", "c": "y", "d": 1}}, [
            "unknown key `d` in one",
            "`one.c` must be a list of at least one",
        ]),
    ],
)  # fmt: skip
def test_reports_each_problem_with_its_place(value: Any, expected: list[str]) -> None:  # noqa: ANN401 - rows
    assert [*faults(value, SHAPE)] == expected
