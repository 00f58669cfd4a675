"""Completion candidates: commands, from their table, and a command's options, their values, and its arguments."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agent_sandbox.cli.framework.color_option import HELP, OPTION, split_color
from agent_sandbox.cli.framework.commands import COMMANDS, GROUPS, command_path, load, with_default
from agent_sandbox.cli.framework.main import VERSION_HELP, command_for
from agent_sandbox.cli.terminal.style import WHENS

COMPLETE = "__complete"
OPTIONS = {OPTION: HELP, "--help": "Show this message and exit."}


def candidates(words: Sequence[str]) -> list[str]:
    """Return the candidates for the last word, as `name<TAB>help`; none for an unknown command.

    A command's module may define `completions`: it gets the arguments before the last word, and returns words for it.
    """
    *before, last = words or [""]
    if before[-1:] == [OPTION]:
        return [f"{when}\t" for when in WHENS if when.startswith(last)]
    words = _spaced([*split_color(before)[0], last])
    return [f"{name}\t{text}" for name, text in _found(words).items() if name.startswith(words[-1])]


def _found(words: Sequence[str]) -> Mapping[str, str]:
    match words:
        case [current] if current.startswith("-"):
            return {"--version": VERSION_HELP} | OPTIONS
        case [_]:
            return COMMANDS | {name: text for name, (text, _) in GROUPS.items()}
        case [group, current] if group in GROUPS and not current.startswith("-"):
            return GROUPS[group][1]
    words = with_default(words)
    path = command_path(words[:-1])
    return _of_command(path, words[len(path) : -1], words[-1]) if path else {}


def _of_command(path: tuple[str, ...], before: Sequence[str], current: str) -> Mapping[str, str]:
    options = _options(path)
    name, given, _ = current.partition("=")
    if given and name in options:
        return {f"{name}={value}": "" for value in _values(options[name])}
    if current.startswith("-"):
        return {name: getattr(one, "help", None) or "" for name, one in options.items()} | OPTIONS
    if before and (option := options.get(before[-1])) and not option.is_flag:
        return dict.fromkeys(_values(option), "")
    known: Callable[..., Iterable[str]] = getattr(load(*path), "completions", lambda *_: ())
    return dict.fromkeys(known(*_arguments(before, options)), "")


def _spaced(words: Sequence[str]) -> list[str]:
    """Return the words without the `=` that bash splits off as a word: `--ide = v` becomes `--ide v`."""
    *before, last = words
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
