"""The option `--color`, which every command takes."""

from collections.abc import Sequence

from agent_sandbox.cli.terminal.style import WHENS

OPTION = "--color"
HELP = "Colour the output; by default only on a terminal."


def split_color(argv: Sequence[str]) -> tuple[list[str], str | None]:
    """Return the arguments without `--color`, and its value or None; after `exec` or `--`, it is for another program.

    >>> split_color(["--color", "never", "up", "-q"]), split_color(["exec", "ls", "--color"])
    ((['up', '-q'], 'never'), (['exec', 'ls', '--color'], None))
    """
    rest: list[str] = []
    when: str | None = None
    words = iter(argv)
    for word in words:
        name, given, value = word.partition("=")
        if name == OPTION:
            when = value if given else next(words, "")
            continue
        rest.append(word)
        if word == "--" or rest == ["exec"]:
            rest += words
    return rest, when


def wrong_color(when: str | None) -> str | None:
    """Return the error message for a value of `--color`, or None if the value is valid."""
    if when is None or when in WHENS:
        return None
    return f"error: {OPTION}: {when!a} is not one of {', '.join(WHENS)}"
