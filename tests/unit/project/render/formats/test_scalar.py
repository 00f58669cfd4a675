import json

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from agent_sandbox.project.render.formats.scalar import to_comment, to_json, to_yaml
from table_tests import each

text = st.text(st.characters(exclude_categories=["Cs"]))
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)


@given(documents)
@example("no")
@example("1:20")
@example("12e3")
@example("a: b # c")
@example("\x85\u2028\ufeff\x00\x7f")
@example({"a, b": ["[", "{{x}}", "$(id)", "'", '"', "\n- x"]})
def test_yaml_parses_to_the_same_value(value: object) -> None:
    assert yaml.safe_load(to_yaml(value)) == value


@given(documents)
def test_json_parses_to_the_same_value(value: object) -> None:
    assert json.loads(to_json(value)) == value


@given(documents)
def test_writes_every_value_on_one_line(value: object) -> None:
    for written in (to_yaml(value), to_json(value)):
        assert len(written.splitlines()) == 1


@given(text)
def test_writes_every_comment_on_one_line(value: str) -> None:
    comment = to_comment(value)
    assert len(f"# {comment}".splitlines()) == 1
    assert yaml.safe_load(f"# {comment}\na: 1") == {"a": 1}


@each("value", ["agent-sandbox/proxy:0.1.0", "http://10.0.0.2:8080", "30s", "0.5s", "8g", "ALL"])
def test_writes_safe_text_without_quotes(value: str) -> None:
    assert to_yaml(value) == value


def test_quotes_only_where_yaml_needs_quotes() -> None:
    assert to_yaml({"type": "bind", "source": "..", "retries": 1}) == '{type: bind, source: "..", retries: 1}'


def test_keeps_letters_of_all_scripts_readable() -> None:
    assert to_yaml("Grüße 日本") == '"Grüße 日本"'


def test_escapes_characters_that_change_the_direction_of_text() -> None:
    assert to_comment("a\u202eb") == "a\\u202eb"


def test_a_comment_keeps_quotes_and_backslashes_as_they_are() -> None:
    assert to_comment('a "b" \\ c') == 'a "b" \\ c'


def test_a_value_that_yaml_cannot_represent_is_an_error() -> None:
    with pytest.raises(TypeError, match="no YAML for object"):
        to_yaml(object())
