from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from agent_sandbox.project.render.formats.template import Templates, to_block

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=150)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture
def templates(tmp_path: Path) -> Templates:
    (tmp_path / "t.j2").write_text("{% if name %}\na: {{ name | yaml }} # {{ name | comment }}\n{% endif %}\n")
    (tmp_path / "json.j2").write_text("{{ template | json }}\n")
    return Templates(tmp_path)


def test_filters_escape_values(templates: Templates) -> None:
    assert templates.render("t.j2", name="x\ny") == 'a: "x\\ny" # x\\ny\n'


def test_does_not_evaluate_templates_in_values(templates: Templates) -> None:
    assert templates.render("t.j2", name="{{ 7 * 7 }}") == 'a: "{{ 7 * 7 }}" # {{ 7 * 7 }}\n'


def test_accepts_a_variable_called_template(templates: Templates) -> None:
    assert templates.render("json.j2", template="x") == '"x"\n'


def test_an_undefined_variable_is_an_error(templates: Templates) -> None:
    with pytest.raises(jinja2.UndefinedError, match="'name' is undefined"):
        templates.render("t.j2")


@given(st.dictionaries(text, values, min_size=1, max_size=4), st.dictionaries(text, text, max_size=2))
@example({"": []}, {".": ""})
@example({"": None}, {".": ""})
def test_yaml_parses_to_the_document_with_any_comments(document: dict[str, Any], comments: dict[str, str]) -> None:
    comments |= dict.fromkeys(document, "a: b\n- c")
    assert yaml.safe_load(to_block(document, 2, comments)) == document


def test_short_values_stay_on_one_line() -> None:
    assert to_block({"cap_drop": ["ALL"], "logging": {"driver": "local"}}, 2, {}) == (
        "  cap_drop: [ALL]\n  logging: {driver: local}"
    )


def test_long_values_go_below_their_key() -> None:
    long = {"a" * 50: "b" * 50, "c": 1}
    assert to_block({"x": long, "z": [long]}, 0, {}) == (
        f"x:\n  {'a' * 50}: {'b' * 50}\n  c: 1\nz:\n  - {{{'a' * 50}: {'b' * 50}, c: 1}}"
    )


def test_a_command_stays_on_one_line() -> None:
    command = ["word"] * 25
    assert to_block({"command": command}, 0, {}) == f"command: [{', '.join(command)}]"


def test_writes_comments_beside_their_key_and_above_their_mount() -> None:
    document = {"networks": {"a": {}, "b": {}}, "volumes": [{"source": "x", "target": "/x"}], "init": True}
    comments = {"networks.a": "one", "volumes./x": "two", "init": "three"}
    assert to_block(document, 0, comments) == (
        "networks:\n  a: {} # one\n  b: {}\nvolumes:\n  # two\n  - {source: x, target: /x}\ninit: true # three"
    )
