"""Offer the harmless git settings that the agent could not save, because the repository's are read-only in the sandbox.

images/agent/git-settings.c keeps a copy of them in the repository's git directory, and what the copy was made from.
Git on the host machine reads neither file, and the agent can write anything into both.
"""

import errno
import os
import re
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from itertools import groupby
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agent_sandbox.features.protect.harmless_settings import is_harmless
from agent_sandbox.features.protect.snapshot import LOSSLESS, Held, accept, read_held, recorded
from agent_sandbox.host.files import open_folder, problem_of, read_bytes
from agent_sandbox.host.git.ask import pushes_by_name
from agent_sandbox.host.git.git_config import UNREADABLE, settings_in
from agent_sandbox.host.git.repositories import GIT
from agent_sandbox.host.git.worktree import Outside, repository_outside
from agent_sandbox.problems import Problem, UserError

KEPT = "agent-sandbox.config"
BASE = ".base"
CONFIG = "config"
MOST_BYTES = 64 << 10
# A name, and where to push and pull. Other harmless settings, such as `core.bare`, can make a repository unusable.
OFFERED = re.compile(r"user\.(?:name|email)|(?:remote|branch)\.(?P<name>.+)\.[^.]+")
CHANGED = "it changed after it was read: run agent-sandbox review again"

Setting = tuple[str, str]


class Offer(Struct, frozen=True, kw_only=True):
    """Settings that the agent wanted to save: `offered` can be added to the repository's settings, `refused` cannot.

    `kept` and `config` are each a directory and the path of a file below it, which is opened without following links.
    `before` has the repository's settings; `addition` is the text that adds those that are offered.
    """

    kept: tuple[Path, str]
    config: tuple[Path, str]
    offered: tuple[Setting, ...] = ()
    refused: tuple[Setting, ...] = ()
    before: Held
    addition: str = ""

    @property
    def path(self) -> str:
        """The file with the repository's settings, as a snapshot names it."""
        return next(iter(self.before.texts))


def find_offer(root: Path) -> Offer | None:
    """Return the settings that the agent wanted to save and the repository lacks, or None."""
    git = repository_outside(root)
    outside = git if isinstance(git, Outside) else None
    kept = (outside.own, KEPT) if outside else (root, f"{GIT}/{KEPT}")
    config = (outside.common, CONFIG) if outside else (root, f"{GIT}/{CONFIG}")
    # The agent did not ask for settings that were only copied, even if the host machine has removed them since.
    copied = _settings_in(kept[0], kept[1] + BASE)
    wished = [one for one in _settings_in(*kept) if one not in copied or one == (UNREADABLE, "")]
    if not wished:
        return None
    path = str(outside.common / CONFIG) if outside else config[1]
    before = read_held(root, (path,))
    had = before.settings.get(path, ())
    # Remotes first: a branch may follow one that is new, too.
    new = sorted((one for one in wished if "\n".join(one) not in had), key=lambda one: (one[0] < "remote.", one))
    if not (new and before.texts):
        return None
    offer, by_name = Offer(kept=kept, config=config, before=before), pushes_by_name(root)
    for _, group in groupby(new, key=lambda one: one[0].rpartition(".")[0]):
        offer = _with(offer, tuple(group), by_name=by_name)
    return offer


def _settings_in(root: Path, path: str) -> list[Setting]:
    """Return the settings in a file that the agent wrote; one that cannot be read has a single, nameless one."""
    try:
        data = read_bytes(root, path, limit=MOST_BYTES + 1) or b""
        data.decode()
    except (OSError, UnicodeDecodeError):
        return [(UNREADABLE, "")]
    found = settings_in(data) if len(data) <= MOST_BYTES else (UNREADABLE,)
    return [(key, value) for key, _, value in (one.partition("\n") for one in dict.fromkeys(found))]


def _with(offer: Offer, group: tuple[Setting, ...], *, by_name: bool) -> Offer:
    """Return the offer with the settings of one remote, one branch or the user: as offered, or as refused."""
    had = {setting.partition("\n")[0] for setting in offer.before.settings.get(offer.path, ())}
    text = _as_text(group)
    wanted = replace(offer, offered=offer.offered + group, addition=offer.addition + text)
    # A setting that is there already keeps its value.
    is_new = text and not had.intersection(key for key, _ in group)
    if is_new and is_harmless(offer.path, offer.before, _after(wanted), pushes_by_name=by_name):
        return wanted
    return replace(offer, refused=offer.refused + group)


def _as_text(group: tuple[Setting, ...]) -> str:
    """Return the settings as git writes them, or "" if one is not offered."""
    lines: list[str] = []
    for key, value in group:
        found = OFFERED.fullmatch(key)
        if not found or not f"{key}{value}".isprintable() or re.search(r'["\\]', f"{key}{value}"):
            return ""
        section, name = key.partition(".")[0], found["name"]
        lines += [] if lines else [f'[{section} "{name}"]' if name else f"[{section}]"]
        quote = '"' if re.search(r"^\s|[#;]|\s$", value) else ""
        lines.append(f"\t{key.rpartition('.')[2]} = {quote}{value}{quote}")
    return "".join(f"{line}\n" for line in lines)


def _after(offer: Offer) -> Held:
    text = _whole(offer)
    return Held(texts={offer.path: text}, settings={offer.path: settings_in(text.encode(errors=LOSSLESS))})


def _whole(offer: Offer) -> str:
    before = offer.before.texts[offer.path]
    return f"{before}{'' if before.endswith('\n') else '\n'}{offer.addition}"


def save_offer(root: Path, environ: Mapping[str, str], offer: Offer) -> None:
    """Add what is offered to the repository's settings; raise UserError if they changed since they were read.

    The file is not replaced, because that would end its mount: the agent could write it then.
    """
    before, after = (text.encode(errors=LOSSLESS) for text in (offer.before.texts[offer.path], _whole(offer)))
    where = "/".join(map(str, offer.config))
    try:
        if not _append(*offer.config, before, after[len(before) :]):
            raise UserError([Problem(where=where, what=CHANGED)])
    except OSError as error:
        raise UserError([problem_of(where, error)]) from error
    then = recorded(root, environ)
    if then.texts.get(offer.path) == offer.before.texts[offer.path]:
        accept(root, environ, then, _after(offer))
    if not offer.refused:
        forget_offer(offer)


def _append(root: Path, path: str, before: bytes, addition: bytes) -> bool:
    """Append to a file without following links; return False if its content differs from this. Raise OSError."""
    with ExitStack() as stack:
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(Path(path).name, flags, dir_fd=open_folder(stack, root, path))
        stack.callback(os.close, handle)
        if os.read(handle, len(before) + 1) != before:
            return False
        if os.write(handle, addition) == len(addition):
            return True
        os.ftruncate(handle, len(before))
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def forget_offer(offer: Offer) -> None:
    """Remove the files that the agent wrote; its settings then no longer apply in the sandbox either."""
    for path in (offer.kept[1], offer.kept[1] + BASE):
        with ExitStack() as stack, suppress(FileNotFoundError):
            try:
                os.unlink(Path(path).name, dir_fd=open_folder(stack, offer.kept[0], path))
            except (IsADirectoryError, NotADirectoryError, PermissionError) as error:
                raise UserError([problem_of(f"{offer.kept[0]}/{path}", error)]) from error
