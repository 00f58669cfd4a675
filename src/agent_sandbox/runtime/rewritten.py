"""What was written to a protected file while it was not: as a difference, and what of it may run on the host."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from itertools import islice

from agent_sandbox.runtime.held import Held, is_settings

MOST_LINES = 60
# Settings of git that run nothing and lead nowhere new. What is not among them is asked about.
HARMLESS = re.compile(
    r"""core\.(abbrev|autocrlf|bare|commentchar|compression|eol|filemode|ignorecase|logallrefupdates|longpaths
            |precomposeunicode|protecthfs|protectntfs|quotepath|repositoryformatversion|safecrlf|sharedrepository|symlinks)
    |remote\..+\.(fetch|gh-resolved|partialclonefilter|promisor|prune|prunetags|push|pushurl|tagopt|url)
    |branch\..+\.(base|description|github-pr-owner-number|merge|pushremote|rebase|remote|vscode-merge-base)
    |branch\.(autosetupmerge|autosetuprebase|sort)
    |submodule\.(active|.+\.(active|branch|ignore|path|url))
    |user\.(email|name|signingkey)|init\.defaultbranch|lfs\.repositoryformatversion
    |fetch\.(prune|prunetags)|pull\.(ff|rebase)|push\.(autosetupremote|default)|rebase\.(autosquash|autostash)""",
    re.VERBOSE,
)
# A value that git takes for an option, for a program, or for the name of one (`ext::`).
DOUBTFUL = re.compile(r"\s*[-!]|.*::", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """The difference of one protected path, and what in it may run something on the host."""

    path: str
    lines: tuple[str, ...]
    runs: tuple[str, ...]


def rewritten(path: str, then: Held, now: Held) -> Rewritten:
    """Return what differs in a file, or in a folder, from when it was last protected."""
    was, is_ = then.below(path), now.below(path)
    names = [name for name in sorted({*was, *is_}) if was.get(name) != is_.get(name)]
    lines = [line for name in names for line in _difference(name, was.get(name), is_.get(name))]
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"... and {len(lines) - MOST_LINES} more lines: look into the file"]
    runs = (why for name in names if name in is_ for why in _runs(name, then, now))
    return Rewritten(path=path, lines=tuple(lines), runs=tuple(islice(runs, MOST_LINES)))


def _difference(name: str, was: str | None, is_: str | None) -> Iterator[str]:
    first = "/dev/null" if was is None else f"a/{name}"
    second = "/dev/null" if is_ is None else f"b/{name}"
    return unified_diff((was or "").splitlines(), (is_ or "").splitlines(), first, second, n=1, lineterm="")


def _runs(name: str, then: Held, now: Held) -> Iterator[str]:
    if not is_settings(name):
        yield name
        return
    before = then.settings.get(name, ())
    for setting in now.settings.get(name, ()):
        key, _, value = setting.partition("\n")
        if setting not in before and (not HARMLESS.fullmatch(key) or DOUBTFUL.match(value)):
            yield f"{name}: {key}"
