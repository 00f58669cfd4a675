"""Ask git for what a repository holds. An agent may have written the repository's settings: none of them is run."""

from collections.abc import Mapping
from pathlib import Path

from agent_sandbox.runtime.process import Finished, capture

SECONDS = 30.0
# An object that is missing is fetched from wherever the settings say, by a program of theirs. In the environment, since
# `-c protocol.allow=never` speaks only of what the settings leave open: `protocol.ext.allow` stands over it.
NO_FETCH: Mapping[str, str] = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}


def ask_git(*words: str, cwd: Path) -> Finished:
    """Return what git says about objects and references; raises OSError where there is no git."""
    return capture(("git", *words), cwd=cwd, timeout=SECONDS, environment=NO_FETCH)
