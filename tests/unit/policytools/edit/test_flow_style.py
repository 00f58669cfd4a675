from agent_sandbox.policytools.edit.flow_style import flow
from table_tests import each


@each(
    ("value", "expected"),
    [
        ("a.test", "a.test"),
        ("*.a.test", '"*.a.test"'),
        ("on", '"on"'),
        ("1", '"1"'),
        ("a, b", '"a, b"'),
        (True, "true"),
        (["GET", "/v1/"], "[GET, /v1/]"),
        ({"exact": {}}, "{exact: {}}"),
    ],
)
def test_quotes_values_where_yaml_needs_quotes(value: object, expected: str) -> None:
    assert flow(value) == expected
