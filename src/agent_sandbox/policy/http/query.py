"""What a rule may say of the query: these parameters and no others."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import override
from urllib.parse import unquote_plus, urlencode

from agent_sandbox.policy.http.method import NAMEABLE

Parameter = tuple[str, str]
# Servers that let a parameter say the method call it so; of these headers, ASP.NET takes one here as well.
OVERRIDES = frozenset({"_method", "x_http_method", "x_http_method_override", "x_method_override"})
# What PHP makes an underscore of in a name, and what others do of a header's.
UNDERSCORES = str.maketrans(" .[-", "____")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# A request is decided at once, maybe several times (with secrets and without), and each of its rules may ask.
FEW = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPattern:
    """Parameters with their values, sorted: their order in a query does not count."""

    parameters: tuple[Parameter, ...]
    widely: frozenset[Parameter] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "widely", frozenset(map(_widely, self.parameters)))

    def is_all_of(self, query: str) -> bool:
        """Tell whether the query holds exactly these: the reading of an allow."""
        number = query.count("&") + 1 if query else 0
        return number == len(self.parameters) and _in_order(query) == self.parameters

    def is_within(self, query: str) -> bool:
        """Tell whether the query holds these among others: the reading of a deny, or `&x=1` would get round it.

        Servers differ on whether `;` parts parameters, on case, on spaces around and on control characters: any of
        their readings counts.
        """
        return self.widely <= _every_reading(query)

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


def without_values(query: str) -> str:
    """Return the query as a denial may show it: denials are logged, and a value can be secret.

    >>> without_values("ref=main&x")
    'ref=...&...'
    """
    pieces = (piece.partition("=") for piece in query.split("&"))
    return "&".join(f"{name}=..." if mark else "..." for name, mark, _ in pieces)


def other_method(query: str, method: str) -> str:
    """Return the method that a query names besides the request's own, nothing where it names none.

    >>> other_method("id=1&_method=delete", "GET")
    'DELETE'
    """
    if "ethod" not in query.lower() and "%" not in query:
        return ""
    # No name of a method holds a `;`: what stands between two is all that could be one.
    for piece in query.replace(";", "&").split("&"):
        name, _, value = piece.partition("=")
        if ("%" in name or "ethod" in name.lower()) and _wide(name).translate(UNDERSCORES) in OVERRIDES:
            named = _wide(value).upper()
            if named in NAMEABLE - {method}:
                return named
    return ""


@lru_cache(maxsize=FEW)
def _in_order(query: str) -> tuple[Parameter, ...]:
    return tuple(sorted(parameters_of(query)))


@lru_cache(maxsize=FEW)
def _every_reading(query: str) -> frozenset[Parameter]:
    ways = {query, query.replace(";", "&")}
    return frozenset(_widely(parameter) for way in ways for parameter in parameters_of(way))


def _widely(parameter: Parameter) -> Parameter:
    name, value = map(_folded, parameter)
    return name, value


def _wide(text: str) -> str:
    return _folded(_decoded(text))


def _folded(text: str) -> str:
    return CONTROL.sub("", text).strip().casefold()


def _decoded(text: str) -> str:
    # Bytes that are no UTF-8 stay distinct and never raise.
    return unquote_plus(text, encoding="utf-8", errors="surrogateescape")
