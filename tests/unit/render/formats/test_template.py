from pathlib import Path

import jinja2
import pytest

from agent_sandbox.render.formats.template import Templates


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
