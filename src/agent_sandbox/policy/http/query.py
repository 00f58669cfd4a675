"""The condition on the query: exactly these parameters."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import override
from urllib.parse import unquote_plus, urlencode

from agent_sandbox.policy.http.method import NAMEABLE

Parameter = tuple[str, str]
# Parameters that override the method on some servers, such as Google's; ASP.NET also accepts such a header name here.
OVERRIDES = frozenset({"$httpmethod", "_method", "x_http_method", "x_http_method_override", "x_method_override"})
# Characters that PHP turns into an underscore in a parameter name, and other servers in a header name.
UNDERSCORES = str.maketrans(" .[-", "____")
IN_PHP = str.maketrans(" .[", "___")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Cache size: a request is decided up to a few times in a row (with and without secrets), by many rules.
FEW = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPattern:
    """Parameters with their values, sorted: their order in a query does not matter."""

    parameters: tuple[Parameter, ...]
    widely: frozenset[Parameter] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "widely", frozenset(map(_widely, self.parameters)))

    def is_all_of(self, query: str) -> bool:
        """Return whether the query has exactly these parameters: for an allow."""
        number = query.count("&") + 1 if query else 0
        return number == len(self.parameters) and _in_order(query) == self.parameters

    def is_within(self, query: str) -> bool:
        """Return whether the query has these parameters among others: for a deny, which `&x=1` must not get around.

        Servers differ on `;` as a separator, on `+` as a space, on case, on surrounding spaces, on control characters
        and on punctuation in names (`a.b` is `a_b` in PHP): any reading counts.
        """
        return self.widely <= _every_reading(query)

    @override
    def __str__(self) -> str:
        return urlencode(self.parameters, errors="surrogateescape")


def query_pattern(exact: Mapping[str, Sequence[str]]) -> QueryPattern:
    """Return the pattern for parameters with their values, as the policy file lists them."""
    return QueryPattern(parameters=tuple(sorted((name, value) for name, values in exact.items() for value in values)))


def parameters_of(query: str) -> list[Parameter]:
    """Return the decoded parameters; an empty piece counts as one.

    >>> parameters_of("q=a+b&%71=%c3%a9&flag")
    [('q', 'a b'), ('q', 'é'), ('flag', '')]
    """
    if not query:
        return []
    pieces = (piece.partition("=") for piece in query.split("&"))
    return [(_decoded(name), _decoded(value)) for name, _, value in pieces]


def has_parameter(query: str, name: str) -> bool:
    """Return whether some server reads a parameter of this name in the query.

    >>> has_parameter("a=1;K%65y=2", "key"), has_parameter("a=key", "key")
    (True, False)
    """
    return bool(query) and any(_widely((name, ""))[0] == found for found, _ in _every_reading(query))


def without_values(query: str) -> str:
    """Return the query as a denial may show it: denials are logged, and a value can be secret.

    >>> without_values("ref=main&x")
    'ref=...&...'
    """
    pieces = (piece.partition("=") for piece in query.split("&"))
    return "&".join(f"{name}=..." if mark else "..." for name, mark, _ in pieces)


def other_method(query: str, method: str) -> str:
    """Return another method that the query names as an override, or an empty string.

    >>> other_method("id=1&_method=delete", "GET")
    'DELETE'
    """
    if "ethod" not in query.lower() and "%" not in query:
        return ""
    # A method never contains `;`, so every piece between separators is tried.
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
    ways |= {way.replace("+", "%2B") for way in ways}
    read = {parameter for way in ways for parameter in parameters_of(way)}
    # `x[]=1`, `x[0]=1` and `x[a][b]=1` hold one value, which many programs treat like the value of `x`.
    read |= {(name.partition("[")[0], value) for name, value in read if "]" in name}
    return frozenset(map(_widely, read))


def _widely(parameter: Parameter) -> Parameter:
    name, value = map(_folded, parameter)
    return name.translate(IN_PHP), value


def _wide(text: str) -> str:
    return _folded(_decoded(text))


def _folded(text: str) -> str:
    return CONTROL.sub("", text).strip().casefold()


def _decoded(text: str) -> str:
    # Bytes that are not UTF-8 stay distinct and never raise.
    return unquote_plus(text, encoding="utf-8", errors="surrogateescape")
