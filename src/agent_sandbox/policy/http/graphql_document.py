"""Find the root fields that the operation of a GraphQL document selects, through fragments and aliases.

Importing this module takes 0.2 s, for the parser, so callers import it only when they have a document.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphql import GraphQLError
from graphql.language import (
    DefinitionNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    ObjectValueNode,
    OperationDefinitionNode,
    StringValueNode,
    VariableNode,
    parse,
)

from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.graphql_operation import Operation, Selection

MAX_LENGTH = 16 * 1024  # characters; clients send a tenth of that
MAX_TOKENS = 2_000
# The most selections to compare with a confinement, after fragments are expanded. Clients send a tenth of that.
MAX_SELECTIONS, MAX_DEPTH = 2_000, 40
# Parsers differ in what ends a comment or a word, and in what is white space.
NOT_PLAIN = re.compile(r"[^\t\n\r\x20-\x7e]")


def operation_of(document: str, name: str | None, variables: Mapping[str, object] | None = None) -> Operation:
    """Return the operation of this name, or without a name the only one; raise Ambiguous if there is not exactly one.

    >>> str(operation_of("query A { me: viewer { login } } query B { node { id } }", "A"))
    'query viewer'
    """
    definitions = _parsed(document)
    operations = [one for one in definitions if isinstance(one, OperationDefinitionNode)]
    fragments = {one.name.value: one for one in definitions if isinstance(one, FragmentDefinitionNode)}
    if len(operations) + len(fragments) != len(definitions):
        raise Ambiguous("a document with a duplicate fragment, or with other definitions than operations and fragments")
    meant = [one for one in operations if name is None or (one.name is not None and one.name.value == name)]
    if len(meant) != 1:
        raise Ambiguous("not exactly one selected operation")
    fields = _fields(meant[0], fragments)
    if not fields:
        raise Ambiguous("an operation without fields")
    selections = _Selections(fragments, _values(meant[0], variables or {})).of(meant[0], 0)
    return Operation(kind=meant[0].operation.value, fields=fields, selections=selections)


def _parsed(document: str) -> Sequence[DefinitionNode]:
    if len(document) > MAX_LENGTH:
        raise Ambiguous(f"a document of more than {MAX_LENGTH} characters")
    if NOT_PLAIN.search(document):
        raise Ambiguous("a document with non-ASCII characters: put values into `variables`")
    try:
        return parse(document, no_location=True, max_tokens=MAX_TOKENS).definitions
    except (GraphQLError, RecursionError):
        raise Ambiguous("a document that is not GraphQL, or too deep or too long") from None


def _fields(operation: OperationDefinitionNode, fragments: Mapping[str, FragmentDefinitionNode]) -> frozenset[str]:
    """Return the root fields, following each fragment once. Reject directives on them, which could mean anything."""
    fields: set[str] = set()
    spread: set[str] = set()
    waiting: list[Any] = [operation]
    while waiting:
        node = waiting.pop()
        if node.directives:
            raise Ambiguous("a directive at the top of the operation")
        if isinstance(node, FieldNode):
            fields.add(node.name.value)
        elif not isinstance(node, FragmentSpreadNode):
            waiting += node.selection_set.selections
        elif node.name.value not in fragments:
            raise Ambiguous("an undefined fragment")
        elif node.name.value not in spread:
            spread.add(node.name.value)
            waiting.append(fragments[node.name.value])
    return frozenset(fields)


def _values(operation: OperationDefinitionNode, variables: Mapping[str, object]) -> Mapping[str, object]:
    """Return the variables that are texts or objects, with the default of each that the client does not send."""
    found: dict[str, object] = {}
    for one in operation.variable_definitions or ():
        name, default = one.variable.name.value, one.default_value
        value = variables.get(name, default.value if isinstance(default, StringValueNode) else None)
        # Servers differ on which of two definitions counts.
        if isinstance(value, str | dict) and name not in found:
            found[name] = value
        else:
            found.pop(name, None)
    return found


class _Selections:
    """Reads what an operation selects, with all fragments expanded."""

    def __init__(self, fragments: Mapping[str, FragmentDefinitionNode], variables: Mapping[str, object]) -> None:
        self._fragments, self._variables = fragments, variables
        self._left = MAX_SELECTIONS

    def of(self, node: Any, depth: int) -> tuple[Selection, ...] | None:  # noqa: ANN401 - an operation, a field, a fragment
        """Return the selections of a node, None if they are too many, or have directives."""
        found: list[Selection] = []
        for one in node.selection_set.selections:
            self._left -= 1
            if self._left < 0 or depth > MAX_DEPTH or one.directives:
                return None
            if isinstance(one, FragmentSpreadNode):
                one = self._fragments.get(one.name.value)  # noqa: PLW2901 - a fragment is read in the place of its name
                if one is None or one.directives:
                    return None
            below = self.of(one, depth + 1) if one.selection_set else ()
            if below is None:
                return None
            if isinstance(one, FieldNode):
                arguments = self._arguments(one)
                alias = one.alias.value if one.alias else ""
                found.append(Selection(name=one.name.value, alias=alias, arguments=arguments, below=below or None))
            elif one.type_condition is None:
                found += below
            else:
                found.append(Selection(name=f"on {one.type_condition.name.value}", below=below))
        return tuple(found)

    def _arguments(self, field: FieldNode) -> tuple[tuple[str, str | None], ...]:
        given: dict[str, str | None] = {}
        for one in field.arguments or ():
            for name, text in self._texts(one.name.value, one.value):
                # Servers differ on which of two arguments counts.
                given[name] = None if name in given else text
        return tuple(given.items())

    def _texts(self, name: str, value: Any) -> Iterator[tuple[str, str | None]]:  # noqa: ANN401 - a value of any kind
        """Yield the text of an argument, or the fields of an object with theirs."""
        if isinstance(value, VariableNode):
            value = self._variables.get(value.name.value)
        if isinstance(value, ObjectValueNode):
            for one in value.fields or ():
                yield from ((f"{name}.{inner}", text) for inner, text in self._texts(one.name.value, one.value))
        elif isinstance(value, dict):
            yield from ((f"{name}.{inner}", text if isinstance(text, str) else None) for inner, text in value.items())
        else:
            text = value.value if isinstance(value, StringValueNode) else value
            yield name, text if isinstance(text, str) else None
