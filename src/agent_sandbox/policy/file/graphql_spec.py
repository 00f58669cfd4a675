"""The condition `graphql` of the policy file: kinds of operations, with the fields that each may select."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import ConfigDict, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from agent_sandbox.policy.file.fields import AtLeastOne, Strict, fits
from agent_sandbox.policy.http.graphql_operation import OperationPattern, operation_pattern, parse_field_name

GRAPHQL_METHOD = "POST"
FieldName = Annotated[str, PlainValidator(fits(parse_field_name), json_schema_input_type=str)]


class GraphqlSpec(Strict):
    """The root fields that an operation may select. Subscriptions cannot be allowed."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    query: AtLeastOne[FieldName] = ()
    mutation: AtLeastOne[FieldName] = ()

    @model_validator(mode="after")
    def _names_a_field(self) -> Self:
        if not self.model_fields_set:
            what, hint = "`graphql` names no operation", "write `graphql: {query: [repository]}`"
            raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint})
        return self

    @property
    def pattern(self) -> OperationPattern:
        """The lists as a pattern."""
        return operation_pattern({kind: getattr(self, kind) for kind in self.model_fields_set})


def require_graphql_post(methods: Sequence[str], *, has_query: bool) -> None:
    """Raise an error for conditions that can never match together with `graphql`."""
    if methods and tuple(methods) != (GRAPHQL_METHOD,):
        what, hint = "`graphql` works only with POST", f"write `methods: [{GRAPHQL_METHOD}]`"
        raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint, "at": ("methods",)})
    if has_query:
        what, hint = "`graphql` never matches a request with a query string", "remove `query`"
        raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint, "at": ("query",)})
