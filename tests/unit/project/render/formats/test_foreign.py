import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.project.render.formats.foreign import MAX_DEPTH, MAX_PROBLEMS, MAX_VALUES, load_foreign
from table_tests import each

HINT = "agent-sandbox init AGENT shows the expected file"
# Nine levels of nine aliases, each of which stands for the level below.
BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))


def test_loads_every_scalar_as_text() -> None:
    value = load_foreign("{a: 1, b: yes, c: [null, 1:30]}", file="x.yml")
    assert value == {"a": "1", "b": "yes", "c": ["null", "1:30"]}


@pytest.mark.parametrize("opening", ["[", "- ", "{a: "])
def test_rejects_more_levels_than_the_limit(opening: str) -> None:
    with pytest.raises(UserError) as raised:
        load_foreign(opening * 100_000, file="x.yml")
    column = MAX_DEPTH * len(opening) + 1
    assert str(raised.value) == f"x.yml:1:{column}: this is more than {MAX_DEPTH} levels deep; {HINT}"


def test_loads_as_many_levels_as_the_limit() -> None:
    value = load_foreign("[" * MAX_DEPTH + "]" * MAX_DEPTH, file="x.yml")
    assert str(value) == "[" * MAX_DEPTH + "]" * MAX_DEPTH


def problems(text: str, *, most: int = MAX_VALUES) -> list[str]:
    with pytest.raises(UserError) as raised:
        load_foreign(text, file="x.yml", most=most)
    return [str(problem) for problem in raised.value.problems]


def test_a_merge_key_is_an_ordinary_key() -> None:
    assert load_foreign("a: {<<: {b: c}}", file="x.yml") == {"a": {"<<": {"b": "c"}}}


@each(
    ("text", "expected"),
    [
        ("a: &b 1\nc: *b\n", ["x.yml:2:4: an alias (`*b`); write the value out"]),
        ("&a [*a]", ["x.yml:1:5: an alias (`*a`); write the value out"]),
        ("a: &b {}\nc: {<<: *b}\n", ["x.yml:2:9: an alias (`*b`); write the value out"]),
        ("a: &b c\n*b : d\n", ["x.yml:2:1: an alias (`*b`); write the value out"]),
        ("- *nowhere\n", ["x.yml:1:3: an alias (`*nowhere`); write the value out"]),
        ("a: 1\nb: 2\n'a': 3\n", ["x.yml:3:1: key `a` is here twice; keep one of them"]),
        ("s: {v: [{a: 1, a: 2}]}", ["x.yml:1:16: key `a` is here twice; keep one of them"]),
        (
            "a: &b 1\na: *b\n",
            [
                "x.yml:2:1: key `a` is here twice; keep one of them",
                "x.yml:2:4: an alias (`*b`); write the value out",
            ],
        ),
    ],
)
def test_reports_all_aliases_and_duplicate_keys(text: str, expected: list[str]) -> None:
    assert problems(text) == expected


@each(
    "text",
    ["{a: {a: 1}, b: {a: 1}}", "[{a: 1}, {a: 1}]", "a: [b, b]", "{a: b, b: a}", "&a b: &c d"],
)
def test_accepts_equal_keys_in_different_mappings(text: str) -> None:
    load_foreign(text, file="x.yml")


def test_reports_an_alias_bomb_without_expanding_the_aliases() -> None:
    assert len(problems(BOMB)) == 9 * 9
    assert len(problems(BOMB * 20)) == MAX_PROBLEMS


def test_rejects_more_values_than_the_limit() -> None:
    assert problems("a: [b,\n c, d]", most=5) == [f"x.yml:2:5: this file has more than 5 values; {HINT}"]
    assert load_foreign("a: [b,\n c]", file="x.yml", most=5) == {"a": ["b", "c"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1\nb: 2\n", "x.yml:2:2: not YAML: did not find expected ',' or ']'"),
        ("\udcff", "x.yml: is not UTF-8 text"),
        ("{[a]: b}", "x.yml:1:2: not YAML: found unhashable key"),
        ("\x00", "x.yml: not YAML: "),
    ],
)
def test_reports_invalid_yaml_with_its_place(text: str, expected: str) -> None:
    with pytest.raises(UserError) as raised:
        load_foreign(text, file="x.yml")
    assert str(raised.value).startswith(expected)
    assert str(raised.value).endswith((f"; {HINT}", "; save it as UTF-8"))
