"""The GraphQL operation of a request, and the condition on it: the root fields that it may select."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import override

from msgspec import Struct

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.text import safe_repr

KINDS = ("query", "mutation")
NAME = re.compile(r"[_A-Za-z][_0-9A-Za-z]{0,99}", re.ASCII)
# The type name, which clients often select in addition. It discloses nothing.
HARMLESS = frozenset({"__typename"})

Links = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
Named = tuple[tuple[str, tuple[str, ...]], ...]


class Selection(Struct, frozen=True, kw_only=True):
    """A field that an operation selects, or a fragment as `on TYPE`, with the selections `below` it.

    An argument that is not a plain text is None. Each field of an object argument is a separate argument, such as
    `input.title`. `alias` is the name in the response, if it differs.
    """

    name: str
    alias: str = ""
    arguments: tuple[tuple[str, str | None], ...] = ()
    below: tuple["Selection", ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The GraphQL operation in a request body: its root fields, or in `doubt` why it is ambiguous.

    `selections` are all its fields, None if they were not read because of too many levels, or directives.
    """

    kind: str = ""
    fields: frozenset[str] = frozenset()
    doubt: str = ""
    selections: tuple[Selection, ...] | None = None
    # Repositories by the ids of their objects, learned from earlier responses.
    known: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @override
    def __str__(self) -> str:
        return self.doubt or f"{self.kind} {', '.join(sorted(self.fields))}"


# Matches every condition on GraphQL: if a request is denied even with this operation, no body can make it allowed.
ANY_OPERATION = Operation(kind="any")


class Confinement(Struct, frozen=True, kw_only=True):
    """What keeps an operation within `repositories` (`owner/name` or `owner/*`, in lower case).

    `types` lists the fields of each type, with the type that each leads to, empty for a value. The kinds of operations
    are types, too. The others list top-level fields with their arguments: in `scoped`, those that name a repository; in
    `searches`, the search text; in `ids`, first the id of an object, which has to be known, then all others that are
    allowed. The ids of the types in `ids_of` become known from responses.
    """

    types: Links
    scoped: Named = ()
    searches: Named = ()
    ids: Named = ()
    ids_of: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()

    @property
    def roots(self) -> Mapping[str, Sequence[str]]:
        """The top-level fields of each kind."""
        return {kind: tuple(dict(fields)) for kind, fields in self.types if kind in {"query", "mutation"}}

    @property
    def written(self) -> dict[str, object]:
        """The confinement as data."""
        types = {name: dict(fields) for name, fields in self.types}
        named = {name: list(arguments) for name, arguments in (*self.scoped, *self.searches, *self.ids)}
        ids_of = {"ids_of": list(self.ids_of)} if self.ids_of else {}
        return {"repositories": list(self.repositories), "named_by": named, **ids_of, "types": types}

    def within(self, wide: "Confinement") -> bool:
        """Return whether `wide` matches every operation that this one matches, as far as this is known."""
        parts = ("types", "scoped", "searches", "ids", "ids_of")
        same = all(getattr(self, part) == getattr(wide, part) for part in parts)
        return same and all(map(wide.names, self.repositories))

    def names(self, repository: str) -> bool:
        """Return whether this is one of the repositories."""
        name = repository.lower()
        owner, slash, _ = name.rpartition("/")
        return name in self.repositories or f"{owner}{slash}*" in self.repositories


class OperationPattern(Struct, frozen=True, kw_only=True):
    """Kinds of operations, each with the root fields that it may select; sorted.

    `confined` says which fields below those it may select, so that it stays within named repositories.
    """

    named: tuple[tuple[str, tuple[str, ...]], ...]
    confined: Confinement | None = None

    @property
    def written(self) -> dict[str, object]:
        """The pattern as data."""
        fields: dict[str, object] = {kind: list(fields) for kind, fields in self.named}
        return fields | ({"confined": self.confined.written} if self.confined else {})

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
        if beyond:
            return (f"graphql {operation.kind} {', '.join(sorted(beyond))}",)
        if self.confined is None:
            return ()
        # Few policies confine operations.
        from agent_sandbox.policy.http.graphql_confinement import beyond as beyond_confinement  # noqa: PLC0415

        outside = beyond_confinement(self.confined, operation)
        return (f"graphql {outside} (beyond the named repositories)",) if outside else ()

    def within(self, wide: "OperationPattern") -> bool:
        """Return whether `wide` matches every operation that this pattern matches."""
        listed = all(frozenset(fields) <= frozenset(dict(wide.named).get(kind, ())) for kind, fields in self.named)
        if wide.confined is None:
            return listed
        return listed and self.confined is not None and self.confined.within(wide.confined)

    @override
    def __str__(self) -> str:
        fields = " and ".join(f"{kind} {', '.join(fields)}" for kind, fields in self.named)
        return f"{fields} in {', '.join(self.confined.repositories)}" if self.confined else fields


def operation_pattern(named: Mapping[str, Sequence[str]], confined: Confinement | None = None) -> OperationPattern:
    """Return the pattern for kinds and fields as the policy file lists them.

    >>> str(operation_pattern({"query": ["viewer", "repository"]}))
    'query repository, viewer'
    """
    listed = tuple(sorted((kind, tuple(sorted(set(fields)))) for kind, fields in named.items()))
    return OperationPattern(named=listed, confined=confined)


def parse_field_name(text: str) -> str:
    """Return a field name, or raise InvalidValue."""
    if not NAME.fullmatch(text):
        raise InvalidValue(
            f"not a field name: {safe_repr(text)}", "use a name from the API's schema, such as `repository`"
        )
    return text
