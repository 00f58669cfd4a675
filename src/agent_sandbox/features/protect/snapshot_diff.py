"""Compare protected files with their snapshot, and find changes that may run something on the host machine."""

import re
from collections.abc import Collection, Iterable, Iterator
from difflib import unified_diff
from itertools import islice
from pathlib import Path

from msgspec import Struct

from agent_sandbox.counted import counted
from agent_sandbox.features.protect.snapshot import NOT_ALONE, Held, is_of_others, is_settings, read_held
from agent_sandbox.host.git.git_config import UNREADABLE
from agent_sandbox.project.render.dotenv import without_values
from agent_sandbox.project.render.paths import DOTENV, STACK

MOST_LINES = 60
# `git fetch --all` and a lazy fetch pass the name of a remote where git expects an option or a name.
NAME = r"\w[^\s:]*"
# Git settings that run nothing and lead nowhere new. All others are asked about.
HARMLESS = re.compile(
    r"""core\.(abbrev|autocrlf|bare|commentchar|compression|eol|filemode|ignorecase|logallrefupdates|longpaths
            |precomposeunicode|quotepath|repositoryformatversion|safecrlf|symlinks)
    |remote\.NAME\.(fetch|prune|prunetags|pushurl|tagopt|url)
    |branch\.NAME\.(base|description|github-pr-owner-number|merge|pushremote|rebase|remote|vscode-merge-base)
    |branch\.(autosetupmerge|autosetuprebase|sort)
    |submodule\.(active|NAME\.(active|branch|ignore|path|url))
    |user\.(email|name|signingkey)|init\.defaultbranch|lfs\.repositoryformatversion
    |fetch\.(prune|prunetags)|pull\.(ff|rebase)|push\.autosetupremote|rebase\.(autosquash|autostash)""".replace(
        "NAME", NAME
    ),
    re.VERBOSE,
)
# A value that git treats as an option, a program, or the name of one (`ext::`).
DOUBTFUL = re.compile(r"\s*[-!]|.*::", re.DOTALL)
# Into tags and the remote's own names: another refspec overwrites the user's branches, or what another remote has.
FETCH = re.compile(r"remote\.(.+)\.fetch\n\+?[^:\s]+:refs/(?:tags|remotes/\1)/\S+")
# Where git fetches from and pushes to. A push to a local folder runs the hooks in it.
LEADS = re.compile(r"remote\..+\.(?:push)?url|submodule\..+\.url|branch\..+\.(?:push)?remote")
ADDRESS = re.compile(
    r"(?:https|ssh)://(?:\w[^\s/@]*@)?[\w\[][\w.:\[\]-]*(?:/\S*)?|(?:\w[\w.+-]*@)?\w[\w.-]+:(?!//)[^-\s]\S*", re.ASCII
)
REMOTE = re.compile(r"remote\.(.+)\.url")
REORDERED = "the order or the number of its settings"


class Rewritten(Struct, frozen=True, kw_only=True):
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
        lines[MOST_LINES:] = [f"... and {counted(len(lines) - MOST_LINES, 'more line')}: see the file"]
    runs = (why for name in names for why in _runs(name, then, now))
    return Rewritten(path=path, lines=tuple(lines), runs=tuple(islice(runs, MOST_LINES)))


def unwatched(root: Path, then: Held) -> tuple[str, ...]:
    """Return the paths that differ from their snapshot, for a container that does not report its mounts.

    Without the stack's own files: users edit them while nothing runs, and `trust` asks about them. And without what
    other worktrees change.
    """
    own = {DOTENV, str(Path(STACK).parent)}
    paths = tuple(path for path in then.paths if path not in own and not is_of_others(path))
    now = read_held(root, paths)
    return tuple(path for path in paths if rewritten(path, then, now).lines)


def _difference(name: str, was: str | None, is_: str | None) -> Iterator[str]:
    if name == DOTENV:
        was, is_ = (one and without_values(one, was or "") for one in (was, is_))
    first = "/dev/null" if was is None else f"a/{name.lstrip('/')}"
    second = "/dev/null" if is_ is None else f"b/{name.lstrip('/')}"
    return unified_diff((was or "").splitlines(), (is_ or "").splitlines(), first, second, n=1, lineterm="")


def _runs(name: str, then: Held, now: Held) -> Iterator[str]:
    if not is_settings(name):
        if name in now.texts:
            yield name
        return
    before, after = then.settings.get(name, ()), now.settings.get(name, ())
    found = list(_unsafe(before, after))
    known = {".", *_remotes(before), *_remotes(after)}
    # The last of several values counts, and an include may come before or after it.
    keys = set(_keys([*_doubtful(before, known), *_doubtful(after, known)]))
    was, is_ = ([one for one in settings if one.partition("\n")[0] in keys] for settings in (before, after))
    if not found and was != is_:
        found.append(REORDERED)
    yield from (f"{name}: {why}" for why in found)


def _unsafe(before: tuple[str, ...], after: tuple[str, ...]) -> Iterator[str]:
    """Yield the keys of new settings that may run something, and of removed ones."""
    for setting in _doubtful(after, {".", *_remotes(after)}):
        if setting not in before or setting in {UNREADABLE, NOT_ALONE}:
            yield setting.partition("\n")[0]
    # A removed setting may have restricted something; without its address, a remote's name is a folder.
    for key in dict.fromkeys(_keys(before)):
        if key not in _keys(after) and (not HARMLESS.fullmatch(key) or REMOTE.fullmatch(key)):
            yield f"{key}, which was removed"


def _doubtful(settings: Iterable[str], known: Collection[str]) -> list[str]:
    found = ((setting, *setting.partition("\n")) for setting in settings)
    return [
        setting for setting, key, _, value in found if not (HARMLESS.fullmatch(key) and _is_safe(key, value, known))
    ]


def _is_safe(key: str, value: str, known: Collection[str]) -> bool:
    if LEADS.fullmatch(key) and not (ADDRESS.fullmatch(value) or (key.startswith("branch.") and value in known)):
        return False
    if key.startswith("remote.") and key.endswith(".fetch") and not FETCH.fullmatch(f"{key}\n{value}"):
        return False
    return not DOUBTFUL.match(value)


def _keys(settings: Iterable[str]) -> list[str]:
    return [setting.partition("\n")[0] for setting in settings]


def _remotes(settings: Iterable[str]) -> Iterator[str]:
    for key in _keys(settings):
        if found := REMOTE.fullmatch(key):
            yield found[1]
