"""Parse simple command lines from the command's signature; leave all other cases to typer.

A test checks that both give the same result wherever this one gives any.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from inspect import Parameter, signature
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

from agent_sandbox.cli.framework.parameters import Argument, Option

DIGITS = re.compile(r"[0-9]{1,9}")


class _NotPlainError(Exception):
    """Typer has to parse or reject this command line."""


def plain_arguments(
    function: Callable[..., object], words: Sequence[str], *, interspersed: bool = True
) -> dict[str, Any] | None:
    """Return the function's keyword arguments, or None if typer has to parse the words.

    Unless options may be `interspersed`, all words from the first argument on are arguments, even `-x`.
    """
    try:
        return _parsed(signature(function).parameters, words, interspersed=interspersed)
    except _NotPlainError:
        return None


def _parsed(parameters: Mapping[str, Parameter], words: Sequence[str], *, interspersed: bool) -> dict[str, Any]:
    declared = {name: _declared(parameter) for name, parameter in parameters.items()}
    options = {word: name for name, how in declared.items() if isinstance(how, Option) for word in how.words(name)}
    places = [name for name, how in declared.items() if isinstance(how, Argument)]
    found: dict[str, Any] = {}
    rest, only_arguments = iter(words), False
    for word in rest:
        if word == "--" and not only_arguments:
            only_arguments = True
            continue
        if word.startswith("-") and not only_arguments:
            name, text = _option(word, rest, options, parameters)
        else:
            name, text, only_arguments = _next(places, found, parameters), word, only_arguments or not interspersed
        kind, repeats = _kind(parameters[name])
        value = _converted(kind, text, declared[name])
        if not repeats and name in found:
            raise _NotPlainError
        found[name] = [*found.get(name, ()), value] if repeats else value
    found = _from_environment(declared, parameters) | found
    if any(parameter.default is Parameter.empty and name not in found for name, parameter in parameters.items()):
        raise _NotPlainError
    return found


def _from_environment(declared: Mapping[str, Argument | Option], parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return the options that a variable sets; an empty one sets none."""
    return {
        name: _converted(_kind(parameters[name])[0], text, how)
        for name, how in declared.items()
        if isinstance(how, Option) and how.envvar and (text := os.environ.get(how.envvar))
    }


def _declared(parameter: Parameter) -> Argument | Option:
    if get_origin(parameter.annotation) is Annotated:
        how = get_args(parameter.annotation)[1]
        if isinstance(how, Argument | Option):
            return how
    raise _NotPlainError


def _kind(parameter: Parameter) -> tuple[Any, bool]:
    """Return the type of one value, and whether the parameter takes several."""
    kind = get_args(parameter.annotation)[0]
    if isinstance(kind, UnionType):
        (kind,) = (one for one in get_args(kind) if one is not type(None))
    return (get_args(kind)[0], True) if get_origin(kind) is list else (kind, False)


def _next(places: Sequence[str], found: Mapping[str, Any], parameters: Mapping[str, Parameter]) -> str:
    """Return the argument that the next word is for."""
    for name in places:
        if name not in found or _kind(parameters[name])[1]:
            return name
    raise _NotPlainError


def _option(
    word: str, rest: Iterator[str], options: Mapping[str, str], parameters: Mapping[str, Parameter]
) -> tuple[str, str]:
    spelled, given, text = word.partition("=")
    name = options.get(spelled)
    if name is None:
        raise _NotPlainError
    if given and not spelled.startswith("--"):
        raise _NotPlainError
    if _kind(parameters[name])[0] is bool:
        if given:
            raise _NotPlainError
        return name, "on"
    value = text if given else next(rest, "-")
    if not given and value.startswith("-"):
        raise _NotPlainError
    return name, value


def _converted(kind: Any, text: str, how: Argument | Option) -> Any:  # noqa: ANN401 - any type that a command declares
    if kind in (str, bool, Path):
        return kind(text)
    if kind is int and isinstance(how, Option) and how.least is not None and DIGITS.fullmatch(text):
        if int(text) >= how.least:
            return int(text)
    elif isinstance(kind, type) and issubclass(kind, Enum) and text in [one.value for one in kind]:
        return kind(text)
    raise _NotPlainError
