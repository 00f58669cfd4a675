"""Decide whether a change of git's settings or of `.env` can be accepted without a look."""

import re
from collections.abc import Iterable

from agent_sandbox.features.protect.snapshot import Held, is_settings
from agent_sandbox.features.protect.snapshot_diff import LEADS, rewritten
from agent_sandbox.project.render.paths import DOTENV
from agent_sandbox.stack.engine import PREFIXES

# A line as git writes it. Programs with a parser of their own could read another one differently from git.
PLAIN = re.compile(
    r"""\[[a-z0-9-]+(?:\ "[^"\\]+")?\]
    |\t[a-z][a-z0-9-]*\ =\ (?:"[^"\\]*"|[^"\\;#\s](?:[^"\\;#]*[^"\\;#\s])?)
    |""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
MERGE = re.compile(r"branch\.(.+)\.merge")
# A line of `.env` that sets a credential, or a comment, in which no reader of such files sees another line.
CREDENTIAL = re.compile(
    rf"""(?:export\ )?(?!(?:{PREFIXES}|GIT|LD|DYLD)_)
    [A-Z][A-Z0-9_]{{0,80}}_(?:KEY|KEY_ID|TOKEN|SECRET|PASSWORD|PAT)
    =(?P<quote>["']?)[\w.:/+=@%,-]+(?P=quote)
    |\#[^\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]*|""",
    re.VERBOSE | re.ASCII,
)
# Known ones must stay as they are: what a plain `git push` pushes to, and which key signs.
FIXED = re.compile(rf"{LEADS.pattern}|branch\..+\.merge|user\.signingkey")


def is_harmless(path: str, then: Held, now: Held, *, pushes_by_name: bool = False) -> bool:
    """Return whether a file has git's settings, and differs from its snapshot in harmless ones only.

    A new branch may follow one of another name if `pushes_by_name`: a plain `git push` does not go there.

    Stricter than `rewritten`, because nobody looks before it is accepted: a known remote or branch must lead where it
    did, and new lines must have the form in which git writes them.
    """
    if path == DOTENV:
        return _is_harmless_dotenv(then.texts.get(path), now.texts.get(path))
    # An empty `settings` means an empty file, or that git is not installed.
    if not (is_settings(path) and then.texts.get(path) and now.settings.get(path)) or rewritten(path, then, now).runs:
        return False
    before, after = then.settings.get(path, ()), now.settings[path]
    # This file outweighs `config`, whose remotes and branches are not looked at here.
    strays = not pushes_by_name and any(_merges_another(one) for one in after if one not in before)
    if strays or _is_led_elsewhere(before, after):
        return False
    if path.endswith(".worktree") and _leads(before) != _leads(after):
        return False
    new = set(now.texts[path].split("\n")).difference(then.texts[path].split("\n"))
    return all(PLAIN.fullmatch(line) and line.removeprefix("\t").isprintable() for line in new)


def _is_harmless_dotenv(then: str | None, now: str | None) -> bool:
    """Return whether only lines with credentials differ, and no value has several lines."""
    if then is None or now is None:
        return False
    was, is_ = ([line for line in text.split("\n") if not CREDENTIAL.fullmatch(line)] for text in (then, now))
    return was == is_ and not any(line.count(sign) % 2 for line in is_ for sign in "\"'") and "\\" not in "".join(is_)


def _is_led_elsewhere(before: tuple[str, ...], after: tuple[str, ...]) -> bool:
    """Return whether a remote, submodule or branch that had an address or a remote gets another one, or loses it."""
    was, is_ = (_leads(settings) for settings in (before, after))
    known = {key.rpartition(".")[0] for key in was}
    removed = any(key not in is_ and key.endswith((".pushurl", ".pushremote")) for key in was)
    return removed or any(values != was.get(key) for key, values in is_.items() if key.rpartition(".")[0] in known)


def _merges_another(setting: str) -> bool:
    """Return whether a branch follows one of another name: with `push.default = upstream`, a push goes there."""
    key, _, value = setting.partition("\n")
    branch = MERGE.fullmatch(key)
    return branch is not None and value != f"refs/heads/{branch[1]}"


def _leads(settings: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, _, value in (setting.partition("\n") for setting in settings):
        if FIXED.fullmatch(key):
            found.setdefault(key, []).append(value)
    return found
