from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter, ValidationError

from agent_sandbox.policy.file.fields import (
    AtLeastOne,
    BodySize,
    BudgetSpec,
    Headers,
    Host,
    Method,
    Port,
    Ports,
    QueryValues,
    Text,
    Written,
    path_of,
    refused,
    written_out,
)
from agent_sandbox.policy.file.short_form import write_out_host
from agent_sandbox.policy.match.path_pattern import PathKind, PathPattern, parse_path_pattern
from table_tests import each


def read(of: Any, value: object) -> Any:  # noqa: ANN401 - a type as pydantic reads it
    return TypeAdapter(of).validate_python(value)


def why_not(of: Any, value: object) -> str:  # noqa: ANN401 - a type as pydantic reads it
    with pytest.raises(ValidationError) as raised:
        read(of, value)
    return raised.value.errors()[0]["type"]


def test_joins_a_text_over_several_lines_to_one_line() -> None:
    assert read(Text, "first\n  second\n") == "first second"


def test_parses_patterns_sizes_and_short_forms() -> None:
    prefix = read(Annotated[PathPattern, path_of(PathKind.PREFIX)], "/a")
    assert prefix == parse_path_pattern(PathKind.PREFIX, "/a")
    assert read(Method, "GET") == "GET"
    assert read(Ports, [*range(1, 101)]) == (*range(1, 101),)
    assert read(Written[BodySize], "1KB") == 1000
    assert read(Headers, {"Accept": "x"}) == {"Accept": "x"}
    assert read(Annotated[dict[str, str], written_out(write_out_host)], "a.test") == {"host": "a.test"}


def test_reads_a_single_query_value_as_a_list() -> None:
    assert read(QueryValues, "main") == read(QueryValues, ["main"]) == ("main",)


@each(
    ("of", "value", "kind"),
    [
        (Text, "a\x1b[31m", "invalid_value"),
        (Text, "a" * 1001, "string_too_long"),
        (Port, 0, "greater_than_equal"),
        (Port, 65536, "less_than_equal"),
        (Method, "GTE", "word"),
        (Method, 1, "string_type"),
        (Host, "*a", "invalid_value"),
        (AtLeastOne[Port], [], "invalid_value"),
        (AtLeastOne[Port], 443, "tuple_type"),
        (Ports, [], "invalid_value"),
        (Ports, [*range(1, 102)], "invalid_value"),
        (Written[str], None, "invalid_value"),
        (BodySize, "1M", "invalid_value"),
        (BudgetSpec, {"upload": "5/day"}, "invalid_value"),
        (BudgetSpec, {"requests": 5}, "string_type"),
        (BudgetSpec, {"requests": None}, "invalid_value"),
        (Headers, {"te": "x"}, "invalid_value"),
        (Headers, {"x": 1}, "string_type"),
        (Annotated[str, refused("not here", "elsewhere")], "x", "invalid_value"),
    ],
)
def test_rejects_invalid_values(of: Any, value: object, kind: str) -> None:  # noqa: ANN401 - as above
    assert why_not(of, value) == kind


def test_parses_a_budget() -> None:
    assert str(BudgetSpec.model_validate({"requests": "5/min"}).value) == "5 requests per min"
