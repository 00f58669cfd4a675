"""Compare a parsed YAML document with the shape that it must have, and report every difference.

Not a pydantic model, because every `init` reads a manifest and importing pydantic takes longer than the rest of `init`.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct


class Keys(Struct, frozen=True):
    """A mapping with any keys that match a pattern; `name` says what a key is."""

    pattern: re.Pattern[str]
    name: str
    values: "Shape"


class OneOf(Struct, frozen=True):
    """A mapping with exactly one of these keys, besides optional ones."""

    choices: Mapping[str, "Shape"]
    besides: Mapping[str, "Shape"]


class Plain(Struct, frozen=True):
    """Text, `true` or `false`, or a list of texts."""


# A pattern describes a string, a list describes one or more of its element, and a mapping describes its keys: all are
# required, except those that end in `?` here.
type Shape = re.Pattern[str] | list[Shape] | Mapping[str, Shape] | Keys | OneOf | Plain


def faults(value: Any, shape: Shape, where: str = "") -> Iterator[str]:  # noqa: ANN401 - whatever the file holds
    """Yield each difference between a value and its shape; `where` is its path in the document."""
    name = where.removeprefix(".") or "the manifest"
    if isinstance(shape, re.Pattern):
        if not (isinstance(value, str) and shape.fullmatch(value)):
            yield f"`{name}` is {value!r}, which does not match {shape.pattern}"
    elif isinstance(shape, Plain):
        if not isinstance(value, str | bool) and not (isinstance(value, list) and all(map(_is_text, value))):
            yield f"`{name}` must be text, true, false or a list of texts"
    elif isinstance(shape, list):
        yield from _faults_of_list(value, shape[0], where, name)
    elif not isinstance(value, dict):
        yield f"`{name}` must be a mapping"
    elif isinstance(shape, Keys):
        yield from _faults_of_free_keys(value, shape, where, name)
    elif isinstance(shape, OneOf):
        chosen = [key for key in shape.choices if key in value]
        if len(chosen) != 1:
            yield f"`{name}` must have exactly one of {', '.join(shape.choices)}"
        yield from _faults_of_keys(value, {f"{key}?": inner for key, inner in _all(shape).items()}, where, name)
    else:
        yield from _faults_of_keys(value, shape, where, name)


def _is_text(value: Any) -> bool:  # noqa: ANN401 - whatever the file holds
    return isinstance(value, str)


def _all(shape: OneOf) -> dict[str, Shape]:
    return {**shape.choices, **shape.besides}


def _faults_of_list(value: Any, shape: Shape, where: str, name: str) -> Iterator[str]:  # noqa: ANN401
    if not (isinstance(value, list) and value):
        yield f"`{name}` must be a list of at least one"
        return
    for number, item in enumerate(value):
        yield from faults(item, shape, f"{where}.{number}")


def _faults_of_free_keys(value: dict[Any, Any], shape: Keys, where: str, name: str) -> Iterator[str]:
    for key, inner in value.items():
        if isinstance(key, str) and shape.pattern.fullmatch(key):
            yield from faults(inner, shape.values, f"{where}.{key}")
        else:
            yield f"`{name}` has the name {key!r}, which is not {shape.name}"


def _faults_of_keys(value: dict[Any, Any], shape: Mapping[str, Shape], where: str, name: str) -> Iterator[str]:
    known = {key.removesuffix("?"): inner for key, inner in shape.items()}
    for key in value:
        if key not in known:
            yield f"unknown key `{key}` in {name}{_nearest(key, known)}"
    for key, inner in known.items():
        if key in value:
            yield from faults(value[key], inner, f"{where}.{key}")
        elif key in shape:
            yield f"`{key}` is missing in {name}"


def _nearest(key: Any, known: Mapping[str, Shape]) -> str:  # noqa: ANN401 - a YAML key may be a number
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake pays for it

    nearest = get_close_matches(str(key), known, n=1)
    return f"; did you mean `{nearest[0]}`?" if nearest else ""
