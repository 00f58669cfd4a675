"""Exit codes: 0 done, 1 the user can fix it, 2 usage error (from typer), 3 a bug, 130 interrupted."""

import os
import platform
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from agent_sandbox import __version__
from agent_sandbox.cli.terminal.output import say, say_problems
from agent_sandbox.problems import Problem, UserError

DONE = 0
FIXABLE = 1
USAGE = 2
FAULT = 3
INTERRUPTED = 130


def exit_code(call: Callable[[], int | None]) -> int:
    """Run a command and return its exit code; print what it raises to stderr."""
    try:
        return call() or DONE
    except UserError as error:
        say_problems(error.problems)
        return FIXABLE
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our stdout closed it (`| head`): Python must not flush into it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FIXABLE
    except Exception as error:  # noqa: BLE001 - the outermost handler: anything else is a bug, and is reported
        what = f"this is a bug in agent-sandbox: {type(error).__name__}: {error}"
        say_problems([Problem(where="", what=what, hint=f"please report it and attach {write_fault(error)}")])
        return FAULT


def write_fault(error: Exception) -> Path:
    """Write the traceback to a new file under the state directory (or the temporary one) and return its path."""
    import tempfile  # noqa: PLC0415 - imported only for a bug report

    from agent_sandbox.host.user_dirs import state_directory  # noqa: PLC0415 - the same

    heading = f"agent-sandbox {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
    text = heading + "".join(traceback.format_exception(error))
    for folder in (state_directory(os.environ) / "faults", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix="fault-", suffix=".log", dir=folder)
        except OSError:
            continue
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        return Path(name)
    say(text)
    return Path("the traceback above")
