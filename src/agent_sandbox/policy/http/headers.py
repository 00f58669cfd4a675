"""What a rule may say of headers: these, with these values."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import override

from agent_sandbox.policy.errors import Unfit
from agent_sandbox.policy.text import safe_repr

Sent = Iterable[tuple[str, str]]
NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]{1,64}")
VALUE = re.compile(r"[\x20-\x7e]{0,1024}")
MEDIA_TYPE = "content-type"
APART = re.compile("[,;]")
# Names that say where a request goes or where it ends: the engine decides on those by words of their own.
ELSEWHERE = {
    "host": "the entry names the host",
    "content-length": "the size of a body is `max_body`",
    **dict.fromkeys(
        ("connection", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding"),
        "it speaks of the connection and is not passed on",
    ),
}


class Headers(tuple[tuple[str, str], ...]):  # noqa: SLOT001 - what was read is kept in its `__dict__`
    """The header fields of one request, read once however many rules ask for them."""

    @cached_property
    def values(self) -> Mapping[str, list[str]]:
        """The values of each header, by its name in lower case."""
        values = defaultdict(list)
        for name, value in self:
            values[name.lower()].append(value.strip(" \t"))
        return dict(values)

    @cached_property
    def spellings(self) -> Mapping[str, list[str]]:
        """The names in lower case that servers may take for the same one, sorted, by what they have in common."""
        spellings = defaultdict(list)
        for name in sorted(self.values):
            spellings[_folded(name)].append(name)
        return dict(spellings)

    @cached_property
    def _widely(self) -> dict[str, list[set[str]]]:
        return {}

    def holds(self, name: str, wanted: str) -> bool:
        """Tell whether the header, its name spelled in any way, may be read as this value, in any case."""
        read = self._widely.get(name)
        if read is None:
            values = [value for spelling in self.spellings.get(name, ()) for value in self.values[spelling]]
            read = self._widely[name] = list(map(_widely, values))
        return any(wanted in readings for readings in read)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderPattern:
    """Headers by name, in lower case and sorted, each with the one value that it has to have."""

    named: tuple[tuple[str, str], ...]

    def is_all_of(self, headers: Sent) -> bool:
        """Tell whether each is there and has no other value beside: the reading of an allow."""
        return not any(self.differences(headers))

    def is_within(self, headers: Sent) -> bool:
        """Tell whether each is there with the value among others, in any case: the reading of a deny."""
        sent = _read(headers)
        return all(sent.holds(_folded(name), wanted.casefold()) for name, wanted in self.named)

    def differences(self, headers: Sent) -> Iterator[str]:
        """Name each header that an allow does not take. Of values, only a media type is shown: denials are logged."""
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
    """Return the pattern for headers as the policy file names them, or raise Unfit.

    >>> str(header_pattern({"Content-Type": "Application/JSON"}))
    'content-type: application/json'
    """
    lowered = {name.lower(): value for name, value in named.items()}
    if not named:
        raise Unfit("`headers` names no header", "take it out, or write `headers: {content-type: application/json}`")
    check_header_names(named)
    for name, value in lowered.items():
        _check_value(name, value)
    return HeaderPattern(named=tuple(sorted((name, _spelling(name, value)) for name, value in lowered.items())))


def check_header_names(names: Collection[str]) -> None:
    """Raise Unfit where one is no name of a header, or none that a rule may speak of, or stands there twice."""
    if len({_folded(name) for name in names}) != len(names):
        hint = "names of headers are the same in every case, and with `_` for `-`: keep one of them"
        raise Unfit("`headers` names a header twice", hint)
    for name in map(str.lower, names):
        if not NAME.fullmatch(name):
            raise Unfit(f"{safe_repr(name)} is no name of a header", "write a name such as `content-type`")
        if name in ELSEWHERE:
            raise Unfit(f"no rule can ask for the header `{name}`", ELSEWHERE[name])


def _check_value(name: str, value: str) -> None:
    if not VALUE.fullmatch(value) or value != value.strip():
        raise Unfit(
            f"{safe_repr(value)} is no value of a header", "write it as it is sent, in ASCII, no spaces around it"
        )
    if name == MEDIA_TYPE and (";" in value or "," in value or "/" not in value):
        raise Unfit(f"{safe_repr(value)} is no media type alone", "write one such as `application/json`, no parameters")


def _spelling(name: str, value: str) -> str:
    return value.lower() if name == MEDIA_TYPE else value


def _folded(name: str) -> str:
    """Return what servers have in common that make a variable of each header: they take `x_a` for `x-a`."""
    return name.lower().replace("_", "-")


def _read(headers: Sent) -> Headers:
    return headers if isinstance(headers, Headers) else Headers(headers)


def _exactly(name: str, value: str) -> str:
    """Read a value narrowly. A media type beside another one is none: readers differ on which of them counts."""
    if name != MEDIA_TYPE or "," in value:
        return value
    return value.partition(";")[0].rstrip(" \t").lower()


def _widely(value: str) -> set[str]:
    """Read a value as everything that a server may take it for: the whole, each of a list, with quotes and without."""
    whole = value.casefold()
    # What stands before the first `;` of an element is among those that `;` parts.
    each = {whole, whole.partition(";")[0], *whole.split(","), *APART.split(whole)}
    return {text.strip(around) for text in each for around in (" \t", ' \t"')}
