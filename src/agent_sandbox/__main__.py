"""`agent-sandbox` and `python -P -m agent_sandbox`: fast answers first, typer only if needed."""

import os
import sys
from typing import NoReturn, TextIO, cast

from agent_sandbox.cli.framework.color_option import split_color, wrong_color
from agent_sandbox.cli.framework.commands import with_default, with_separator
from agent_sandbox.cli.framework.static_help import COMPLETE, answer, usage, without_help_word
from agent_sandbox.cli.terminal.style import VARIABLE


def main() -> NoReturn:
    """Run the command line."""
    argv, when = sys.argv[1:], None
    if argv[:1] != [COMPLETE]:
        argv, when = split_color(argv)
    argv = with_separator(with_default(without_help_word(argv)))
    text, instead = answer(argv), wrong_color(when) or usage(argv)
    if when is not None and not instead:
        os.environ[VARIABLE] = when
    try:
        if instead is not None:
            _print(sys.stderr, instead)
            raise SystemExit(2)
        if text is None:
            _run_command(argv)
        _print(sys.stdout, text)
    except KeyboardInterrupt:  # before any command started
        raise SystemExit(130) from None
    raise SystemExit(0)


def _print(stream: TextIO, text: str) -> None:
    """Print text; only a terminal needs it wrapped."""
    if text and stream.isatty():
        from agent_sandbox.cli.terminal.output import write_lines  # noqa: PLC0415 - completion and scripts need none of it

        write_lines(stream, [text])
    elif text:
        stream.write(f"{text}\n")


def _run_command(argv: list[str]) -> NoReturn:
    from agent_sandbox.cli.framework.errors import exit_code  # noqa: PLC0415 - the quick answers need none of it
    from agent_sandbox.runtime.host.program_path import program_path  # noqa: PLC0415 - the same

    os.environ["PATH"] = program_path(os.environ)  # git and the engine's command, too, are never programs of a project
    if argv[:1] == [COMPLETE]:
        raise SystemExit(exit_code(lambda: _complete(argv[1:])))
    raise SystemExit(exit_code(lambda: _run(argv)))


def _run(argv: list[str]) -> int | None:
    """Run a command, with typer only if `plain_arguments` cannot parse the words."""
    from agent_sandbox.cli.framework.arg_parser import plain_arguments  # noqa: PLC0415 - the same
    from agent_sandbox.cli.framework.commands import command_path, in_python, load  # noqa: PLC0415 - the same

    path = command_path(argv)
    if path:
        module = load(*path)
        function, context = getattr(module, in_python(path[-1])), getattr(module, "CONTEXT", {})
        interspersed = context.get("allow_interspersed_args", True)
        arguments = plain_arguments(function, argv[len(path) :], interspersed=interspersed)
        if arguments is not None:
            return cast("int | None", function(**arguments))

    from agent_sandbox.cli.framework.main import run  # noqa: PLC0415 - the same

    return run(argv)


def _complete(words: list[str]) -> None:
    from agent_sandbox.cli.framework.complete import candidates  # noqa: PLC0415 - the same

    text = candidates(words)
    sys.stdout.write(f"{text}\n" if text else "")


if __name__ == "__main__":
    main()
