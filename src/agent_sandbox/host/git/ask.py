"""Query git about a repository. The agent may have written its settings, so no program that they name may run."""

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from agent_sandbox.host.git.git_config import NotSaidError, Patience, Settings
from agent_sandbox.host.process import TIMED_OUT, Finished, capture
from agent_sandbox.problems import Problem, UserError

SECONDS = 30.0
# Git fetches missing objects as the settings say, with a program that they name. Disabled in the environment, because
# `-c protocol.allow=never` is only a default: `protocol.ext.allow` in the settings overrides it.
NO_FETCH: Mapping[str, str] = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}
# A commit and its parents are what its object says. References below `refs/replace`, grafts and a graph of commits kept
# beside the objects could say otherwise. Below a file there are no grafts.
NO_SUBSTITUTES: Mapping[str, str] = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_GRAFT_FILE": f"{os.devnull}/none"}
# A repository's own `core.useReplaceRefs` overrides the variable above.
NO_SUBSTITUTES_EITHER = ("-c", "core.useReplaceRefs=false", "-c", "core.commitGraph=false")
# For reading the index: the program that `core.fsmonitor` names would run, and git would stop where the work tree that
# the settings name is gone.
NO_PROGRAMS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
NO_WORK_TREE: Mapping[str, str] = {**NO_FETCH, "GIT_OPTIONAL_LOCKS": "0", "GIT_WORK_TREE": "/"}
# Values of `push.default` with which a plain `git push` goes to the branch of the same name, or nowhere.
BY_NAME = frozenset({"simple", "current", "matching", "nothing"})
WAITS = "git does not answer: the repository's settings include a file that blocks"
WAITS_HINT = "look for a named pipe among the files that `git config --list --show-origin` reads"


def ask_git(*words: str, cwd: Path, environment: Mapping[str, str] = MappingProxyType({})) -> Finished:
    """Return git's output about objects and references; raise OSError without git.

    Raise UserError if git does not answer.
    """
    repository = _repository_around(cwd)
    try:
        if repository is not None:
            Settings(Patience()).of(repository)
    except NotSaidError as error:
        raise UserError([Problem(where=str(repository), what=WAITS, hint=WAITS_HINT)]) from error
    return ask_git_again(*words, cwd=cwd, environment=environment)


def ask_git_again(*words: str, cwd: Path, environment: Mapping[str, str] = MappingProxyType({})) -> Finished:
    """Do the same with the repository's settings in force: they have just been checked, and none blocks git."""
    argv = ("git", *NO_SUBSTITUTES_EITHER, *words)
    said = capture(argv, cwd=cwd, timeout=SECONDS, environment={**NO_FETCH, **NO_SUBSTITUTES, **environment})
    if said.code == TIMED_OUT:
        raise UserError([Problem(where=str(_repository_around(cwd) or cwd), what=WAITS, hint=WAITS_HINT)])
    return said


def _repository_around(cwd: Path) -> Path | None:
    places = (folder / ".git" for folder in (cwd, *cwd.absolute().parents))
    return next(filter(Path.exists, places), None)


def pushes_by_name(project: Path) -> bool:
    """Return whether a plain `git push` of the user's never goes to a branch of another name."""
    try:
        said = ask_git("config", "--includes", "-z", "--get-all", "push.default", cwd=project)
    except (OSError, UserError):
        return False
    # 1 means that it is not set: git's own default is `simple`.
    return said.code in {0, 1} and BY_NAME.issuperset(said.out.removesuffix("\0").split("\0") if said.out else ())
