"""Completion candidates that the static table lacks: a command's options and its first argument."""

from collections.abc import Callable, Iterable, Sequence

from agent_sandbox.cli.framework.commands import command_path, load
from agent_sandbox.cli.framework.main import command_for


def candidates(words: Sequence[str]) -> str:
    """Return the candidates for the last word, one `name<TAB>help` per line; empty for an unknown command.

    A command's module may define `completions`, which returns the words for its first argument.
    """
    path = command_path(words[:-1])
    if path is None:
        return ""
    current = words[-1]
    found = _options(path) if current.startswith("-") else _words(path, words)
    return "\n".join(f"{name}\t{text}" for name, text in found.items() if name.startswith(current))


def _options(path: tuple[str, ...]) -> dict[str, str]:
    parameters = command_for(path).params
    return {
        name: getattr(parameter, "help", None) or ""
        for parameter in parameters
        for name in parameter.opts
        if name.startswith("--")
    } | {"--help": "Show this message and exit."}


def _words(path: tuple[str, ...], words: Sequence[str]) -> dict[str, str]:
    if len(words) != len(path) + 1:
        return {}
    known: Callable[[], Iterable[str]] = getattr(load(*path), "completions", tuple)
    return dict.fromkeys(known(), "")
