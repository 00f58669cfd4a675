"""The condition `graphql` of the policy file: kinds of operations, with the fields that each may select."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Self

from pydantic import ConfigDict, Field, PlainValidator, model_validator
from pydantic_core import PydanticCustomError

from agent_sandbox.policy.file.fields import AtLeastOne, Strict, fits
from agent_sandbox.policy.http.graphql_operation import (
    Confinement,
    OperationPattern,
    operation_pattern,
    parse_field_name,
)

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


# Fields of a type: their names, or mappings from names to the types that they lead to.
Fields = AtLeastOne[str | dict[str, str]]


class ConfinedGraphqlSpec(Strict):
    """What an operation may select at every level, so that it stays within the repositories that a policy names.

    `types` are the service's types with their fields, including those of the operations (`query`). A field in `scoped`
    names a repository in these arguments; one in `searches` has a search in this argument. The policy that names the
    service sets `repositories`.
    """

    types: dict[str, Fields]
    scoped: dict[str, AtLeastOne[str]]
    searches: dict[str, str] = Field(default_factory=dict)
    repositories: AtLeastOne[str] = ()

    @model_validator(mode="after")
    def _leads_to_known_types(self) -> Self:
        for fields in self.types.values():
            for kind in (kind for one in fields if isinstance(one, dict) for kind in one.values()):
                if kind not in self.types:
                    what, hint = f"unknown type {kind}", "add it to `types`"
                    raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint})
        return self

    @property
    def pattern(self) -> OperationPattern:
        """The operations that stay within the repositories."""
        confined = Confinement(
            types=tuple((name, tuple(_leads(fields))) for name, fields in sorted(self.types.items())),
            scoped=tuple(sorted(self.scoped.items())),
            searches=tuple((name, (argument,)) for name, argument in sorted(self.searches.items())),
            repositories=tuple(sorted(self.repositories)),
        )
        return operation_pattern(confined.roots, confined)


def _leads(fields: Fields) -> Iterator[tuple[str, str]]:
    for one in fields:
        yield from one.items() if isinstance(one, dict) else [(one, "")]


def require_graphql_post(methods: Sequence[str], *, has_query: bool) -> None:
    """Raise an error for conditions that can never match together with `graphql`."""
    if methods and tuple(methods) != (GRAPHQL_METHOD,):
        what, hint = "`graphql` works only with POST", f"write `methods: [{GRAPHQL_METHOD}]`"
        raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint, "at": ("methods",)})
    if has_query:
        what, hint = "`graphql` never matches a request with a query string", "remove `query`"
        raise PydanticCustomError("invalid_value", "{what}", {"what": what, "hint": hint, "at": ("query",)})
