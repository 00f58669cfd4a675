"""`agent-sandbox` and `python -P -m agent_sandbox`."""

import os
import sys
from typing import NoReturn

from agent_sandbox.cli.framework.color_option import split_color, wrong_color
from agent_sandbox.cli.framework.commands import unknown_word, with_default, with_separator, without_help_word
from agent_sandbox.cli.framework.complete import COMPLETE, candidates
from agent_sandbox.cli.framework.errors import USAGE, exit_code
from agent_sandbox.cli.framework.main import run
from agent_sandbox.cli.terminal.output import write_lines
from agent_sandbox.cli.terminal.style import VARIABLE
from agent_sandbox.host.program_path import program_path


def main() -> NoReturn:
    """Run the command line."""
    raise SystemExit(exit_code(lambda: _answer(sys.argv[1:])))


def _answer(argv: list[str]) -> int | None:
    os.environ["PATH"] = program_path(os.environ)  # git and the engine's command, too, are never programs of a project
    if argv[:1] == [COMPLETE]:
        sys.stdout.writelines(f"{line}\n" for line in candidates(argv[1:]))
        return None
    argv, when = split_color(argv)
    argv = with_separator(with_default(without_help_word(argv)))
    if instead := wrong_color(when) or unknown_word(argv):
        write_lines(sys.stderr, [instead])
        return USAGE
    if when is not None:
        os.environ[VARIABLE] = when
    return run(argv)


if __name__ == "__main__":
    main()
