"""What a rule may say of GraphQL: which fields of the schema's root an operation may ask for."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import override

from agent_sandbox.policy.errors import Unfit
from agent_sandbox.policy.text import safe_repr

KINDS = ("query", "mutation")
NAME = re.compile(r"[_A-Za-z][_0-9A-Za-z]{0,99}", re.ASCII)
# What clients ask for beside anything else: the name of the type. It tells nothing.
HARMLESS = frozenset({"__typename"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What the body of a request asks for: the fields at the top of its operation, or why that can't be told."""

    kind: str = ""
    fields: frozenset[str] = frozenset()
    doubt: str = ""

    @override
    def __str__(self) -> str:
        return self.doubt or f"{self.kind} {', '.join(sorted(self.fields))}"


# Stands for whatever may still follow: what is denied with it no body makes allowed.
ANY_OPERATION = Operation(kind="any")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationPattern:
    """Kinds of operations, each with the fields that may be asked for at the top; sorted."""

    named: tuple[tuple[str, tuple[str, ...]], ...]

    def takes(self, operation: Operation | None) -> bool:
        """Tell whether each field is named. What has not been read, or leaves doubt, is not taken."""
        return operation is ANY_OPERATION or (operation is not None and not any(self.differences(operation)))

    def differences(self, operation: Operation | None) -> tuple[str, ...]:
        """Name what is asked for beyond the pattern."""
        if operation is None:
            return ("a GraphQL operation that was not read",)
        if operation.doubt:
            return (f"a GraphQL operation that can't be told ({operation.doubt})",)
        listed = dict(self.named).get(operation.kind)
        beyond = operation.fields if listed is None else operation.fields - HARMLESS - frozenset(listed)
        return (f"graphql {operation.kind} {', '.join(sorted(beyond))}",) if beyond else ()

    def within(self, wide: "OperationPattern") -> bool:
        """Tell whether the other one takes all that this one takes."""
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
    """Return the name of a field, or raise Unfit."""
    if not NAME.fullmatch(text):
        raise Unfit(f"{safe_repr(text)} is no name of a field", "write one as the API's schema has it: `repository`")
    return text
