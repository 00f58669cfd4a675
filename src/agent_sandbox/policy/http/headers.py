"""The condition on headers: names with required values."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import override

from msgspec import Struct

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.text import safe_repr

Sent = Iterable[tuple[str, str]]
NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]{1,64}")
VALUE = re.compile(r"[\x20-\x7e]{0,1024}")
MEDIA_TYPE = "content-type"
APART = re.compile("[,;]")
# Headers that no condition can name, with the reason.
ELSEWHERE = {
    "host": "the entry names the host",
    "content-length": "the size of a body is `max_body`",
    **dict.fromkeys(
        ("connection", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding"),
        "it concerns the connection and is not forwarded",
    ),
}


class Headers(tuple[tuple[str, str], ...]):  # noqa: SLOT001 - its `__dict__` caches what was parsed
    """The header fields of one request, parsed once for all rules."""

    @cached_property
    def values(self) -> Mapping[str, list[str]]:
        """The values of each header, by lower-case name."""
        values = defaultdict(list)
        for name, value in self:
            values[name.lower()].append(value.strip(" \t"))
        return dict(values)

    @cached_property
    def spellings(self) -> Mapping[str, list[str]]:
        """Lower-case names that servers may treat as the same header, sorted, by their common form."""
        spellings = defaultdict(list)
        for name in sorted(self.values):
            spellings[_folded(name)].append(name)
        return dict(spellings)

    @cached_property
    def _widely(self) -> dict[str, list[set[str]]]:
        return {}

    def holds(self, name: str, wanted: str) -> bool:
        """Return whether a server could read the header, under any spelling of its name, as this value in any case."""
        read = self._widely.get(name)
        if read is None:
            values = [value for spelling in self.spellings.get(name, ()) for value in self.values[spelling]]
            read = self._widely[name] = list(map(_widely, values))
        return any(wanted in readings for readings in read)


class HeaderPattern(Struct, frozen=True, kw_only=True):
    """Lower-case header names with the value that each must have, sorted."""

    named: tuple[tuple[str, str], ...]

    def is_all_of(self, headers: Sent) -> bool:
        """Return whether each header is present with no other value: for an allow."""
        return not any(self.differences(headers))

    def is_within(self, headers: Sent) -> bool:
        """Return whether each header is present with the value, in any case and among others: for a deny."""
        sent = _read(headers)
        return all(sent.holds(_folded(name), wanted.casefold()) for name, wanted in self.named)

    def differences(self, headers: Sent) -> Iterator[str]:
        """Yield each header that does not match in an allow. Of values, only media types: denials are logged."""
        sent = _read(headers)
        for name, wanted in self.named:
            values = sent.values.get(name, ())
            for other in sent.spellings.get(_folded(name), ()):
                if other != name:
                    yield f"header {other} beside {name}"
            if {_exactly(name, value) for value in values} != {wanted}:
                shown = ", ".join(map(safe_repr, values)) if name == MEDIA_TYPE else ""
                yield f"header {name} {shown if values else '(none)'}".rstrip()

    @override
    def __str__(self) -> str:
        return " and ".join(f"{name}: {value}" for name, value in self.named)


def header_pattern(named: Mapping[str, str]) -> HeaderPattern:
    """Return the pattern for headers as the policy file names them, or raise InvalidValue.

    >>> str(header_pattern({"Content-Type": "Application/JSON"}))
    'content-type: application/json'
    """
    lowered = {name.lower(): value for name, value in named.items()}
    if not named:
        raise InvalidValue("`headers` is empty", "remove it, or write `headers: {content-type: application/json}`")
    check_header_names(named)
    for name, value in lowered.items():
        _check_value(name, value)
    return HeaderPattern(named=tuple(sorted((name, _spelling(name, value)) for name, value in lowered.items())))


def check_header_names(names: Collection[str]) -> None:
    """Raise InvalidValue for an invalid or duplicate name, and for a header that no condition can name."""
    if len({_folded(name) for name in names}) != len(names):
        hint = "header names are case-insensitive, and `_` counts as `-`: keep one of them"
        raise InvalidValue("duplicate header in `headers`", hint)
    for name in map(str.lower, names):
        if not NAME.fullmatch(name):
            raise InvalidValue(f"not a header name: {safe_repr(name)}", "write a name such as `content-type`")
        if name in ELSEWHERE:
            raise InvalidValue(f"a rule cannot match the header `{name}`", ELSEWHERE[name])


def _check_value(name: str, value: str) -> None:
    if not VALUE.fullmatch(value) or value != value.strip():
        raise InvalidValue(
            f"not a header value: {safe_repr(value)}", "write it as it is sent, in ASCII, without spaces around it"
        )
    if name == MEDIA_TYPE and (";" in value or "," in value or "/" not in value):
        raise InvalidValue(
            f"not a media type: {safe_repr(value)}", "write one such as `application/json`, without parameters"
        )


def _spelling(name: str, value: str) -> str:
    return value.lower() if name == MEDIA_TYPE else value


def _folded(name: str) -> str:
    """Return the name as CGI-like servers see it, to which `x_a` and `x-a` are the same."""
    return name.lower().replace("_", "-")


def _read(headers: Sent) -> Headers:
    return headers if isinstance(headers, Headers) else Headers(headers)


def _exactly(name: str, value: str) -> str:
    """Return the value for an allow: a media type without parameters. A list stays a list, because servers differ."""
    if name != MEDIA_TYPE or "," in value:
        return value
    return value.partition(";")[0].rstrip(" \t").lower()


def _widely(value: str) -> set[str]:
    """Return every value that a server might read: the whole, each element of a list, with and without quotes."""
    whole = value.casefold()
    # The part before the first `;` of each element is among the pieces split at `;`.
    each = {whole, whole.partition(";")[0], *whole.split(","), *APART.split(whole)}
    return {text.strip(around) for text in each for around in (" \t", ' \t"')}
