"""The condition `graphql` of the policy file: kinds of operations, and the fields that each may ask for."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import ConfigDict, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from agent_sandbox.policy.file.fields import AtLeastOne, Strict, fits
from agent_sandbox.policy.http.graphql_operation import OperationPattern, operation_pattern, parse_field_name

GRAPHQL_METHOD = "POST"
FieldName = Annotated[str, PlainValidator(fits(parse_field_name), json_schema_input_type=str)]


class GraphqlSpec(Strict):
    """Which fields of the schema's root a request may ask for. There is no word for subscriptions."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    query: AtLeastOne[FieldName] = ()
    mutation: AtLeastOne[FieldName] = ()

    @model_validator(mode="after")
    def _names_a_field(self) -> Self:
        if not self.model_fields_set:
            what, hint = "`graphql` names no operation", "write `graphql: {query: [repository]}`"
            raise PydanticCustomError("unfit", "{what}", {"what": what, "hint": hint})
        return self

    @property
    def pattern(self) -> OperationPattern:
        """The lists as a pattern."""
        return operation_pattern({kind: getattr(self, kind) for kind in self.model_fields_set})


def refuse_what_is_no_graphql(methods: Sequence[str], *, has_query: bool) -> None:
    """Refuse conditions beside `graphql` with which no request could match."""
    if methods and tuple(methods) != (GRAPHQL_METHOD,):
        what, hint = "GraphQL is read in the body of a POST alone", f"write `methods: [{GRAPHQL_METHOD}]`"
        raise PydanticCustomError("unfit", "{what}", {"what": what, "hint": hint, "at": ("methods",)})
    if has_query:
        what, hint = "a request with a query string is not read as GraphQL", "take `query` out"
        raise PydanticCustomError("unfit", "{what}", {"what": what, "hint": hint, "at": ("query",)})
