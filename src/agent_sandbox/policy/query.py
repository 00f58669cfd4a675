"""What a rule may say of the query: these parameters and no others."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import override
from urllib.parse import unquote_plus, urlencode

from agent_sandbox.policy.method import NAMEABLE

Parameter = tuple[str, str]
# Servers that let a parameter say the method call it so; of these headers, ASP.NET takes one here as well.
OVERRIDES = frozenset({"_method", "x_http_method", "x_http_method_override", "x_method_override"})
# What PHP makes an underscore of in a name, and what others do of a header's.
UNDERSCORES = str.maketrans(" .[-", "____")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPattern:
    """Parameters with their values, sorted: their order in a query does not count."""

    parameters: tuple[Parameter, ...]

    def is_all_of(self, query: str) -> bool:
        """Tell whether the query holds exactly these: the reading of an allow."""
        return sorted(parameters_of(query)) == list(self.parameters)

    def is_within(self, query: str) -> bool:
        """Tell whether the query holds these among others: the reading of a deny, or `&x=1` would get round it.

        Servers differ on whether `;` parts parameters, on case, on spaces around and on control characters: any of
        their readings counts.
        """
        found = _every_reading(query)
        return all(_widely(parameter) in found for parameter in self.parameters)

    @override
    def __str__(self) -> str:
        return urlencode(self.parameters, errors="surrogateescape")


def query_pattern(exact: Mapping[str, Sequence[str]]) -> QueryPattern:
    """Return the pattern for parameters with their values, as the policy file lists them."""
    return QueryPattern(parameters=tuple(sorted((name, value) for name, values in exact.items() for value in values)))


def parameters_of(query: str) -> list[Parameter]:
    """Return the decoded parameters; an empty piece counts as one, so that nothing goes unseen.

    >>> parameters_of("q=a+b&%71=%c3%a9&flag")
    [('q', 'a b'), ('q', 'é'), ('flag', '')]
    """
    if not query:
        return []
    pieces = (piece.partition("=") for piece in query.split("&"))
    return [(_decoded(name), _decoded(value)) for name, _, value in pieces]


def other_method(query: str, method: str) -> str:
    """Return the method that a query names besides the request's own, nothing where it names none.

    >>> other_method("id=1&_method=delete", "GET")
    'DELETE'
    """
    if "ethod" not in query.lower() and "%" not in query:
        return ""
    for name, value in _every_reading(query):
        if name.translate(UNDERSCORES) in OVERRIDES and (named := value.upper()) in NAMEABLE - {method}:
            return named
    return ""


def _every_reading(query: str) -> set[Parameter]:
    return {_widely(parameter) for reading in (query, query.replace(";", "&")) for parameter in parameters_of(reading)}


def _widely(parameter: Parameter) -> Parameter:
    name, value = (CONTROL.sub("", text).strip().casefold() for text in parameter)
    return name, value


def _decoded(text: str) -> str:
    # Bytes that are no UTF-8 stay distinct and never raise.
    return unquote_plus(text, encoding="utf-8", errors="surrogateescape")
