"""The GraphQL operation of a request, and the condition on it: the root fields that it may select."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import override

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.text import safe_repr

KINDS = ("query", "mutation")
NAME = re.compile(r"[_A-Za-z][_0-9A-Za-z]{0,99}", re.ASCII)
# The type name, which clients often select in addition. It discloses nothing.
HARMLESS = frozenset({"__typename"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The GraphQL operation in a request body: its root fields, or in `doubt` why it is ambiguous."""

    kind: str = ""
    fields: frozenset[str] = frozenset()
    doubt: str = ""

    @override
    def __str__(self) -> str:
        return self.doubt or f"{self.kind} {', '.join(sorted(self.fields))}"


# Matches every condition on GraphQL: if a request is denied even with this operation, no body can make it allowed.
ANY_OPERATION = Operation(kind="any")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationPattern:
    """Kinds of operations, each with the root fields that it may select; sorted."""

    named: tuple[tuple[str, tuple[str, ...]], ...]

    def takes(self, operation: Operation | None) -> bool:
        """Return whether all fields are listed. An operation that was not read or is ambiguous does not match."""
        return operation is ANY_OPERATION or (operation is not None and not any(self.differences(operation)))

    def differences(self, operation: Operation | None) -> tuple[str, ...]:
        """Return what the operation selects beyond the pattern, as text for a denial."""
        if operation is None:
            return ("a GraphQL operation that was not read",)
        if operation.doubt:
            return (f"ambiguous GraphQL ({operation.doubt})",)
        listed = dict(self.named).get(operation.kind)
        beyond = operation.fields if listed is None else operation.fields - HARMLESS - frozenset(listed)
        return (f"graphql {operation.kind} {', '.join(sorted(beyond))}",) if beyond else ()

    def within(self, wide: "OperationPattern") -> bool:
        """Return whether `wide` matches every operation that this pattern matches."""
        return all(frozenset(fields) <= frozenset(dict(wide.named).get(kind, ())) for kind, fields in self.named)

    @override
    def __str__(self) -> str:
        return " and ".join(f"{kind} {', '.join(fields)}" for kind, fields in self.named)


def operation_pattern(named: Mapping[str, Sequence[str]]) -> OperationPattern:
    """Return the pattern for kinds and fields as the policy file lists them.

    >>> str(operation_pattern({"query": ["viewer", "repository"]}))
    'query repository, viewer'
    """
    return OperationPattern(named=tuple(sorted((kind, tuple(sorted(set(fields)))) for kind, fields in named.items())))


def parse_field_name(text: str) -> str:
    """Return a field name, or raise InvalidValue."""
    if not NAME.fullmatch(text):
        raise InvalidValue(
            f"not a field name: {safe_repr(text)}", "use a name from the API's schema, such as `repository`"
        )
    return text
