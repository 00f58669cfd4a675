"""The candidates that the static table does not know: a command's options, and the words that it takes first."""

from collections.abc import Callable, Iterable, Sequence

from agent_sandbox.cli.framework.commands import command_path, load
from agent_sandbox.cli.framework.main import command_for


def candidates(words: Sequence[str]) -> str:
    """Return the candidates for the last word, one `name<TAB>help` a line; none where there is no such command.

    A command's module may have a function `completions`: it returns the words for the command's first argument.
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
