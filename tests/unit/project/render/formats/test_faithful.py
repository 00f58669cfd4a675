import pytest

from agent_sandbox.project.render.formats.faithful import UnfaithfulTemplateError, load_yaml, require_same


def test_accepts_an_equal_document() -> None:
    require_same("f", expected={"a": [1, {"b": None}]}, actual={"a": [1, {"b": None}]})


def test_names_every_difference() -> None:
    with pytest.raises(UnfaithfulTemplateError) as raised:
        require_same("f.yml", expected={"a": 1, "b": {"c": "x"}}, actual={"b": {"c": "y"}, "d": 1})
    assert str(raised.value) == "f.yml: $.a is missing; $.b.c is 'y', not 'x'; $.d is too much"


def test_a_number_differs_from_equal_text_booleans_and_floats() -> None:
    for actual in ("1", True, 1.0):
        with pytest.raises(UnfaithfulTemplateError):
            require_same("f", expected={"a": 1}, actual={"a": actual})


def test_yaml_is_loaded_safely() -> None:
    assert load_yaml("a: [1, x]") == {"a": [1, "x"]}
    with pytest.raises(Exception, match="could not determine a constructor"):
        load_yaml("!!python/object/apply:os.getcwd []")
