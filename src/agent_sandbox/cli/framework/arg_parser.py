"""Parse simple command lines from the command's signature; leave all other cases to typer.

A test checks that both give the same result wherever this one gives any.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from inspect import Parameter, signature
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

from agent_sandbox.cli.framework.parameters import Argument, Option


class _NotPlainError(Exception):
    """Typer has to parse or reject this command line."""


def plain_arguments(function: Callable[..., object], words: Sequence[str]) -> dict[str, Any] | None:
    """Return the function's keyword arguments, or None if typer has to parse the words."""
    try:
        return _parsed(signature(function).parameters, words)
    except _NotPlainError:
        return None


def _parsed(parameters: Mapping[str, Parameter], words: Sequence[str]) -> dict[str, Any]:
    declared = {name: _declared(parameter) for name, parameter in parameters.items()}
    options = {how.spelled(name): name for name, how in declared.items() if isinstance(how, Option)}
    places = [name for name, how in declared.items() if isinstance(how, Argument)]
    found: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        name, text = _option(word, rest, options, parameters) if word.startswith("-") else (_next(places, found), word)
        kind = _type(parameters[name])
        if kind == list[str] | None:
            found[name] = [*found.get(name, ()), text]
        elif name in found:
            raise _NotPlainError
        else:
            found[name] = _converted(kind, text)
    if any(parameter.default is Parameter.empty and name not in found for name, parameter in parameters.items()):
        raise _NotPlainError
    return found


def _declared(parameter: Parameter) -> Argument | Option:
    if get_origin(parameter.annotation) is Annotated:
        how = get_args(parameter.annotation)[1]
        if isinstance(how, Argument | Option):
            return how
    raise _NotPlainError


def _type(parameter: Parameter) -> Any:  # noqa: ANN401 - any type that a command declares
    return get_args(parameter.annotation)[0]


def _next(places: Sequence[str], found: Mapping[str, Any]) -> str:
    unset = (name for name in places if name not in found)
    name = next(unset, places[-1] if places else None)
    if name is None:
        raise _NotPlainError
    return name


def _option(
    word: str, rest: Iterator[str], options: Mapping[str, str], parameters: Mapping[str, Parameter]
) -> tuple[str, str]:
    spelled, given, text = word.partition("=")
    name = options.get(spelled)
    if name is None:
        raise _NotPlainError
    if _type(parameters[name]) is bool:
        if given:
            raise _NotPlainError
        return name, "on"
    value = text if given else next(rest, "-")
    if not given and value.startswith("-"):
        raise _NotPlainError
    return name, value


def _converted(kind: Any, text: str) -> Any:  # noqa: ANN401 - any type that a command declares
    if isinstance(kind, UnionType):
        (kind,) = (one for one in get_args(kind) if one is not type(None))
    if kind in (str, bool, Path):
        return kind(text)
    if isinstance(kind, type) and issubclass(kind, Enum) and text in [one.value for one in kind]:
        return kind(text)
    raise _NotPlainError
