"""Which tests use the engine, what they need first, and which test file a worker of a whole run begins next."""

import os
from collections.abc import Iterable
from pathlib import Path

# Whether to try what no change can wait for: every client in all ways, every agent, every language.
NIGHTLY = bool(os.environ.get("NIGHTLY"))
# All tests that use the engine.
ON_THE_ENGINE = (
    *("tests/conformance/", "tests/e2e/", "tests/golden/test_accepted.py"),
    *(f"tests/shell/test_{name}.py" for name in ("image", "refusals", "rules", "verify")),
)
# Those that take longest, in the order in which they are best begun; all others follow.
LONGEST = tuple(
    f"tests/e2e/test_{name}.py"
    for name in (
        *("working_day", "first_day", "agents", "project_file", "clients", "workspace", "faults", "commands_stack"),
        *("clones", "user_namespaces", "engine_ends", "devcontainer", "registries", "lifecycle", "trust"),
    )
)
# What all of them need: the images of the stacks that most run.
STACKS = "stacks"
# The modules with a function `prepare` for what else they need, in the order in which prepared.py calls them.
PREPARED = (
    *("test_boot", "test_beside", "test_ways_out", "test_devcontainer", "test_own_agent", "test_agents"),
    *("test_clients", "test_registries", "test_working_day", "test_project_file", "test_languages"),
    *(["test_first_day", "test_clock"] if NIGHTLY else []),
)
# A file for each of these that is ready.
MARKS = Path(__file__).resolve().parents[2] / "build" / "prepared"


def turn(file: str) -> int:
    """Return the place of a test file in the order of a run."""
    if file in LONGEST:
        return LONGEST.index(file)
    return len(LONGEST) + (not file.startswith(ON_THE_ENGINE))


def best_for(files: Iterable[str], *, on_engine: bool) -> str:
    """Return the file that a worker begins next: of those on the engine, or of the others, while there are any.

    A worker on the engine begins what is ready, and does the work of others until something is.
    """
    waiting = [*files]
    engine = [file for file in waiting if file.startswith(ON_THE_ENGINE)]
    rest = [file for file in waiting if not file.startswith(ON_THE_ENGINE)]
    ready = [file for file in engine if is_ready(file)]
    return next(iter([*ready, *rest, *engine] if on_engine else [*rest, *ready, *engine]))


def is_ready(file: str) -> bool:
    """Return whether prepared.py has made what a test file on the engine needs."""
    name = Path(file).stem
    return (MARKS / (name if name in PREPARED else STACKS)).exists()
