import re

import pytest
from pydantic import TypeAdapter, ValidationError

from agent_sandbox.policyfile.parse.checking import TEXT, matching, require_text
from table_tests import each


@each("value", ["a-", 1, None])
def test_rejects_text_that_does_not_match_completely(value: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(matching_type()).validate_python(value)


def test_returns_text_that_matches() -> None:
    assert TypeAdapter(matching_type()).validate_python("ab") == "ab"
    assert require_text("x") == "x"


def matching_type() -> object:
    from typing import Annotated  # noqa: PLC0415 - only here

    return Annotated[str, matching(re.compile("[a-z]+"), "a word", "write letters"), TEXT]
