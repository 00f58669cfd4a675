"""Find the root fields that the operation of a GraphQL document selects, through fragments and aliases.

Importing this module takes 0.2 s, for the parser, so callers import it only when they have a document.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from graphql import GraphQLError
from graphql.language import (
    DefinitionNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    OperationDefinitionNode,
    parse,
)

from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.http.graphql_operation import Operation

MAX_LENGTH = 16 * 1024  # characters; clients send a tenth of that
MAX_TOKENS = 2_000
# Parsers differ in what ends a comment or a word, and in what is white space.
NOT_PLAIN = re.compile(r"[^\t\n\r\x20-\x7e]")


def operation_of(document: str, name: str | None) -> Operation:
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
    return Operation(kind=meant[0].operation.value, fields=fields)


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
