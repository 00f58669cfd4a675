"""Compare protected files with their snapshot, and find changes that may run something on the host machine."""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from difflib import unified_diff
from itertools import islice
from pathlib import Path

from agent_sandbox.render.paths import DOTENV, STACK
from agent_sandbox.runtime.protect.snapshot import Held, is_settings, read_held

MOST_LINES = 60
# Git settings that run nothing and lead nowhere new. All others are asked about.
HARMLESS = re.compile(
    r"""core\.(abbrev|autocrlf|bare|commentchar|compression|eol|filemode|ignorecase|logallrefupdates|longpaths
            |precomposeunicode|quotepath|repositoryformatversion|safecrlf|sharedrepository|symlinks)
    |remote\..+\.(fetch|gh-resolved|partialclonefilter|promisor|prune|prunetags|push|pushurl|tagopt|url)
    |branch\..+\.(base|description|github-pr-owner-number|merge|pushremote|rebase|remote|vscode-merge-base)
    |branch\.(autosetupmerge|autosetuprebase|sort)
    |submodule\.(active|.+\.(active|branch|ignore|path|url))
    |user\.(email|name|signingkey)|init\.defaultbranch|lfs\.repositoryformatversion
    |fetch\.(prune|prunetags)|pull\.(ff|rebase)|push\.(autosetupremote|default)|rebase\.(autosquash|autostash)""",
    re.VERBOSE,
)
# A value that git treats as an option, a program, or the name of one (`ext::`).
DOUBTFUL = re.compile(r"\s*[-!]|.*::", re.DOTALL)
# Where git fetches from and pushes to. A push to a local folder runs the hooks in it.
LEADS = re.compile(r"remote\..+\.(?:push)?url|submodule\..+\.url|branch\..+\.(?:push)?remote")
ADDRESS = re.compile(r"(?:https?|ssh|git)://[^-/].*|(?:[\w.+-]+@)?\w[\w.-]+:(?!//).*", re.ASCII | re.IGNORECASE)
REMOTE = re.compile(r"remote\.(.+)\.url")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """The difference of one protected path, and the parts that may run something on the host machine."""

    path: str
    lines: tuple[str, ...]
    runs: tuple[str, ...]


def rewritten(path: str, then: Held, now: Held) -> Rewritten:
    """Return how a file or folder differs from its snapshot."""
    was, is_ = then.below(path), now.below(path)
    names = [name for name in sorted({*was, *is_}) if was.get(name) != is_.get(name)]
    lines = [line for name in names for line in _difference(name, was.get(name), is_.get(name))]
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"... and {len(lines) - MOST_LINES} more lines: see the file"]
    runs = (why for name in names for why in _runs(name, then, now))
    return Rewritten(path=path, lines=tuple(lines), runs=tuple(islice(runs, MOST_LINES)))


def unwatched(root: Path, then: Held) -> tuple[str, ...]:
    """Return the paths that differ from their snapshot, for a container that does not report its mounts.

    Without the stack's own files: users edit them while nothing runs, and `trust` asks about them.
    """
    paths = tuple(path for path in then.paths if path not in {DOTENV, str(Path(STACK).parent)})
    now = read_held(root, paths)
    return tuple(path for path in paths if rewritten(path, then, now).lines)


def _difference(name: str, was: str | None, is_: str | None) -> Iterator[str]:
    first = "/dev/null" if was is None else f"a/{name}"
    second = "/dev/null" if is_ is None else f"b/{name}"
    return unified_diff((was or "").splitlines(), (is_ or "").splitlines(), first, second, n=1, lineterm="")


def _runs(name: str, then: Held, now: Held) -> Iterator[str]:
    if not is_settings(name):
        if name in now.texts:
            yield name
        return
    before, after = then.settings.get(name, ()), now.settings.get(name, ())
    known = {".", *_remotes(after)}
    for setting in after:
        key, _, value = setting.partition("\n")
        if setting not in before and not (HARMLESS.fullmatch(key) and _is_harmless(key, value, known)):
            yield f"{name}: {key}"
    # A removed setting may have restricted something; without its address, a remote's name is a folder.
    for key in dict.fromkeys(_keys(before)):
        if key not in _keys(after) and (not HARMLESS.fullmatch(key) or REMOTE.fullmatch(key)):
            yield f"{name}: {key}, which was removed"


def _is_harmless(key: str, value: str, known: Collection[str]) -> bool:
    if LEADS.fullmatch(key) and not (ADDRESS.fullmatch(value) or (key.startswith("branch.") and value in known)):
        return False
    return not DOUBTFUL.match(value)


def _keys(settings: Iterable[str]) -> list[str]:
    return [setting.partition("\n")[0] for setting in settings]


def _remotes(settings: Iterable[str]) -> Iterator[str]:
    for key in _keys(settings):
        if found := REMOTE.fullmatch(key):
            yield found[1]
