"""Answer `--version`, `--help` and completion of command names without importing typer.

Shells ask for these often, and importing typer takes five times as long as starting Python. A test compares every
static help with typer's output.
"""

from collections.abc import Mapping, Sequence

from agent_sandbox import __version__
from agent_sandbox.cli.framework import color_option
from agent_sandbox.cli.framework.commands import (
    BUILDING,
    COMMANDS,
    GROUPS,
    OPTIONS_OF_INIT,
    OTHER_WORDS,
    PROGRAM,
    SUMMARY,
)
from agent_sandbox.cli.terminal.style import WHENS

VERSION = f"{PROGRAM} {__version__}"
COMPLETE = "__complete"
HELP = ("--help", "-h")
ROOT_OPTIONS = {
    "--version": "Print the version and exit.",
    f"{color_option.OPTION} {'|'.join(WHENS)}": color_option.HELP,
    "-h, --help": "Show this message and exit.",
}
GROUP_OPTIONS = {"-h, --help": "Show this message and exit."}


def answer(argv: Sequence[str]) -> str | None:
    """Return the text that answers these arguments, or None if typer has to handle them."""
    match tuple(argv):
        case ("--version",):
            return VERSION
        case (option,) if option in HELP:
            return root_help()
        case (group, option) if group in GROUPS and option in HELP:
            return group_help(group)
        case (first, *words) if first == COMPLETE:
            return complete(words)
    return None


def without_help_word(argv: Sequence[str]) -> list[str]:
    """Return the arguments with `help policy check` written as `policy check --help`."""
    return [*argv[1:], HELP[0]] if argv[:1] == ["help"] else [*argv]


def usage(argv: Sequence[str]) -> str | None:
    """Return what to print if the command is missing or another program's word, which is a usage error."""
    match tuple(argv):
        case (word, *_) if word in OTHER_WORDS:
            return _unknown(word)
        case (group, word, *_) if f"{group} {word}" in OTHER_WORDS:
            return _unknown(f"{group} {word}")
        case (word, option, *_) if word in BUILDING and (hint := OPTIONS_OF_INIT.get(option.partition("=")[0])):
            return f"error: `{word}` has no option `{option.partition('=')[0]}`\n  hint: {hint}"
        case ():
            return root_help()
        case (group,) if group in GROUPS:
            return group_help(group)
    return None


def _unknown(words: str) -> str:
    return f"error: unknown command `{words}`\n  hint: {OTHER_WORDS[words]}"


def root_help() -> str:
    """Return the help of `agent-sandbox --help`."""
    return _help((PROGRAM,), SUMMARY, ROOT_OPTIONS, COMMANDS | {name: text for name, (text, _) in GROUPS.items()})


def group_help(group: str) -> str:
    """Return the help of `agent-sandbox GROUP --help`."""
    text, commands = GROUPS[group]
    return _help((PROGRAM, group), text, GROUP_OPTIONS, commands)


def complete(words: Sequence[str]) -> str | None:
    """Return the candidates for the last word, one `name<TAB>help` per line, or None for options."""
    if words[-2:-1] == [color_option.OPTION]:
        return "\n".join(f"{when}\t" for when in WHENS if when.startswith(words[-1]))
    before, _ = color_option.split_color(words[:-1])
    match (*before, *words[-1:]):
        case (current,) if not current.startswith("-"):
            names = COMMANDS | {name: text for name, (text, _) in GROUPS.items()}
        case (group, current) if group in GROUPS and not current.startswith("-"):
            names = GROUPS[group][1]
        case (current,):
            names = {"--version": ROOT_OPTIONS["--version"], color_option.OPTION: color_option.HELP}
            names["--help"] = ROOT_OPTIONS["-h, --help"]
        case _:
            return None
    return "\n".join(f"{name}\t{text}" for name, text in names.items() if name.startswith(current))


def _help(path: Sequence[str], summary: str, options: Mapping[str, str], commands: Mapping[str, str]) -> str:
    usage = f"Usage: {' '.join(path)} [OPTIONS] COMMAND [ARGS]..."
    return "\n".join(
        (usage, "", *_wrapped(summary), "", *_table("Options", options), "", *_table("Commands", commands))
    )


def _table(title: str, rows: Mapping[str, str]) -> list[str]:
    width = max(map(len, rows))
    return [f"{title}:", *(f"  {name:<{width}}  {text}" for name, text in rows.items())]


def _wrapped(text: str, width: int = 76) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [f"  {line}" for line in lines]
