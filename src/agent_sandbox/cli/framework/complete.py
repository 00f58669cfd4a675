"""Completion candidates that the static table lacks: a command's options, their values, and its arguments."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agent_sandbox.cli.framework.color_option import HELP, OPTION, split_color
from agent_sandbox.cli.framework.commands import command_path, load, with_default
from agent_sandbox.cli.framework.main import command_for


def candidates(words: Sequence[str]) -> str:
    """Return the candidates for the last word, one `name<TAB>help` per line; empty for an unknown command.

    A command's module may define `completions`: it gets the arguments before the last word, and returns words for it.
    """
    words = with_default(_spaced([*split_color(words[:-1])[0], *words[-1:]]))
    path = command_path(words[:-1])
    if path is None:
        return ""
    before, current = words[len(path) : -1], words[-1]
    options = _options(path)
    name, given, _ = current.partition("=")
    if given and name in options:
        found = {f"{name}={value}": "" for value in _values(options[name])}
    elif current.startswith("-"):
        found = {name: getattr(one, "help", None) or "" for name, one in options.items()}
        found |= {OPTION: HELP, "--help": "Show this message and exit."}
    elif before and (option := options.get(before[-1])) and not option.is_flag:
        found = dict.fromkeys(_values(option), "")
    else:
        known: Callable[..., Iterable[str]] = getattr(load(*path), "completions", lambda *_: ())
        found = dict.fromkeys(known(*_arguments(before, options)), "")
    return "\n".join(f"{name}\t{text}" for name, text in found.items() if name.startswith(current))


def _spaced(words: Sequence[str]) -> list[str]:
    """Return the words without the `=` that bash splits off as a word: `--ide = v` becomes `--ide v`."""
    *before, last = words or [""]
    return [*(word for word in before if word != "="), "" if last == "=" else last]


def _values(option: Any) -> list[str]:  # noqa: ANN401 - click's object
    """Return the values of an option, if its placeholder lists them: `vscode|none`."""
    choices = str(option.metavar or "").split("|")
    return choices if choices[1:] else []


def _options(path: tuple[str, ...]) -> dict[str, Any]:
    """Return the options of a command as click's objects, by their long names."""
    return {name: one for one in command_for(path).params for name in one.opts if name.startswith("--")}


def _arguments(words: Sequence[str], options: dict[str, Any]) -> list[str]:
    """Return the words that are neither options nor values of options."""
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            found.append(word)
        elif (option := options.get(word)) and not option.is_flag:
            next(rest, None)
    return found
