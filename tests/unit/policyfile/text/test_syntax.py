import pytest
import yaml

from agent_sandbox.policyfile.text.syntax import syntax_problem
from table_tests import each


def told(text: str, loader: type[yaml.SafeLoader | yaml.CSafeLoader]) -> str:
    with pytest.raises(yaml.YAMLError) as error:
        yaml.load(text, Loader=loader)  # noqa: S506 - a safe one
    return str(syntax_problem(error.value, text, "policy.yaml"))


@each(
    ("text", "message"),
    [
        ("domains:\n\t- a.test\n", "policy.yaml:2:1: a tab where YAML needs spaces; indent with spaces"),
        (
            "domains:\n  - *.example.com # all\n",
            (
                "policy.yaml:2:6: invalid YAML: did not find expected alphabetic or numeric character; "
                'quote a word that begins with `*`: "*.example.com"'
            ),
        ),
        (
            "domains:\n  - host: @x\n",
            (
                "policy.yaml:2:11: invalid YAML: found character that cannot start any token; "
                'quote a word that begins with `@`: "@x"'
            ),
        ),
        ("domains: [a.test\nallow: []", "policy.yaml:2:6: invalid YAML: did not find expected ',' or ']'"),
        ('domains: ["a.test', "policy.yaml:1:18: invalid YAML: found unexpected end of stream"),
    ],
)
def test_explains_invalid_yaml_with_its_place(text: str, message: str) -> None:
    assert told(text, yaml.CSafeLoader) == message


def test_reports_the_same_place_without_the_c_library() -> None:
    message = told("domains:\n\t- a.test\n", yaml.SafeLoader)
    assert message == "policy.yaml:2:1: a tab where YAML needs spaces; indent with spaces"


def test_an_error_past_the_last_line_has_a_place_too() -> None:
    assert (
        told('domains: ["a.test\n', yaml.CSafeLoader) == "policy.yaml:2:1: invalid YAML: found unexpected end of stream"
    )


def test_an_error_without_a_place_keeps_its_message() -> None:
    assert str(syntax_problem(yaml.YAMLError("odd"), "", "policy.yaml")) == "policy.yaml: invalid YAML: odd"
