"""What the trust question says: all settings of a project, or what changed. `trust_gate.py` prints it."""

from collections.abc import Iterator, Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any

from msgspec import Struct

from agent_sandbox.counted import counted
from agent_sandbox.printable import printable
from agent_sandbox.problems import UserError
from agent_sandbox.project.record import require_true
from agent_sandbox.project.render.paths import DEVCONTAINER, DOTENV, POLICY, PROJECT_FILE, RECORD, SHARED, STACK
from agent_sandbox.project.trust_snapshot import NAMED_IN, SERVICES, Standing, agent_can_write, look
from agent_sandbox.project.trust_store import open_store

OWNER = "its owner"
# A policy may name a million hosts; what it reaches is listed separately.
MOST_LINES = 20_000
FIRST = 5  # hosts of a list


class Written(Struct, frozen=True, kw_only=True):
    """The files that `init` would write: our generated files by path, and the members of devcontainer.json."""

    files: Mapping[str, str]
    members: Mapping[str, Any]


class Question(Struct, frozen=True, kw_only=True):
    """The files and settings that the user would trust; if something is trusted already, only what is new."""

    standing: Standing
    fingerprint: str
    changed: tuple[str, ...]
    known: bool
    reaches: tuple[str, ...]
    sets: tuple[str, ...]
    mounts: tuple[str, ...]
    injects: tuple[str, ...]
    editor: tuple[str, ...]
    notes: tuple[str, ...]
    differences: tuple[str, ...]


def changes(now: Standing, trusted: Standing | None) -> tuple[str, ...]:
    """Return the names of the files to review; nothing if all are trusted or ask for less.

    A narrowed policy asks for less, and so does a project file that widens nothing, unless it is also run. So does any
    other removed file, except one of the stack: a removed mount may have been a protection.
    """
    return _changes(now, trusted, _reaches(now, trusted) if trusted else ())


def _changes(now: Standing, trusted: Standing | None, reaches: tuple[str, ...]) -> tuple[str, ...]:
    if trusted is None:
        return tuple(now.files)
    files = [path for path, text in now.files.items() if text != trusted.files.get(path)]
    quiet = {PROJECT_FILE, *(() if reaches else now.policy)}
    return (
        *((OWNER,) if now.owner not in (None, trusted.owner) else ()),
        *((DOTENV,) if now.stack_files != trusted.stack_files else ()),
        *((PROJECT_FILE,) if PROJECT_FILE not in now.run and _sets(now, trusted) else ()),
        *(path for path in files if path not in quiet or path in now.run),
    )


def unseen_in(root: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files of the project at `root` that are not trusted."""
    return changes(look(root, environ), open_store(environ).load(root))


def question_about(now: Standing, trusted: Standing | None, written: Written) -> Question:
    """Return the trust question; `written` is what `init` would write here."""
    from agent_sandbox.features.trust.host_access import (  # noqa: PLC0415 - most runs ask nothing
        members,
        mounts,
        require_shared,
        require_whole,
        variables,
    )

    require_whole(now)
    require_shared(now)
    require_true(now.files, now.root)
    as_written = [path for path, text in written.files.items() if now.files.get(path) == text]
    before = trusted or Standing(root=now.root, owner=None, stack_files=(), files={})
    reaches = _reaches(now, before)
    return Question(
        standing=now,
        fingerprint=now.apart_from(as_written).fingerprint,
        changed=_changes(now, trusted, reaches),
        known=trusted is not None,
        reaches=reaches,
        sets=_sets(now, before),
        mounts=_beyond(mounts(now), mounts(before)),
        injects=_beyond(variables(now), variables(before)),
        editor=_beyond(*(members(one.files.get(DEVCONTAINER), written.members) for one in (now, before))),
        notes=(*_notes(now, before), *_lists(now, before)),
        differences=tuple(_differences(now, before, written)),
    )


def _reaches(now: Standing, before: Standing) -> tuple[str, ...]:
    if now.policy == before.policy:
        return ()
    from agent_sandbox.features.trust.reach_diff import reaches  # noqa: PLC0415 - brings pydantic; most runs ask nothing

    return reaches(now, before)


def _sets(now: Standing, before: Standing) -> tuple[str, ...]:
    """Return one line for each key of the project file that widens; one that cannot be read counts as a change."""
    if now.files.get(PROJECT_FILE) == before.files.get(PROJECT_FILE):
        return ()
    from agent_sandbox.projectfile.parsing import parse_project_file  # noqa: PLC0415 - as above
    from agent_sandbox.projectfile.widening import widens  # noqa: PLC0415 - as above

    texts = (one.files.get(PROJECT_FILE, "") for one in (now, before))
    try:
        return widens(*(parse_project_file(text, file=PROJECT_FILE) for text in texts))
    except UserError as error:
        return tuple(f"cannot be read: {line}" for line in str(error).splitlines())


def _beyond(now: tuple[str, ...], before: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(line for line in now if line not in before)


def _notes(now: Standing, before: Standing) -> Iterator[str]:
    if now.owner not in (None, before.owner):
        yield f"this directory belongs to user {now.owner}, who can change everything in it"
    # Fewer, or in another order.
    if before.stack_files != tuple(path for path in now.stack_files if path in before.stack_files):
        named, names = (", ".join(standing.stack_files) for standing in (before, now))
        yield f"the stack consisted of {named}; by {NAMED_IN} it now consists of {names}"
    for path in now.stack_files:
        if agent_can_write(path):
            yield f"{path}, named by {NAMED_IN}, can be written by the agent: move it into .devcontainer"


def _lists(now: Standing, before: Standing) -> Iterator[str]:
    """Yield the content of each new host list; resolved services are shown by their rules."""
    for path in now.lists.keys() - {POLICY, *SERVICES, *before.files}:
        hosts = [line.strip() for line in now.files[path].splitlines() if line.partition("#")[0].strip()]
        more = ", ..." if len(hosts) > FIRST else ""
        yield f"{path} names {counted(len(hosts), 'host')}: {', '.join(hosts[:FIRST])}{more}"


def _differences(now: Standing, before: Standing, written: Written) -> Iterator[str]:
    """Yield the diffs from the trusted files; for a first question, from what `init` would write.

    A first question also shows the policy's text. A file that the stack no longer uses is shown as removed: it may have
    added a protection.
    """
    dropped = (path for path in before.stack_files if path not in now.stack_files)
    for path in (
        *now.stack_files,
        *(path for path in (RECORD, SHARED) if path in now.files),
        *(path for path in (DEVCONTAINER, *now.policy) if path == POLICY or path in before.files),
        *dict.fromkeys((*now.box, *before.box)),
    ):
        old = before.files.get(path, written.files.get(path, "") if path in (STACK, RECORD, SHARED) else "")
        yield from _difference(path, old, now.files.get(path, ""), bounded=path in now.policy and path not in now.run)
    for path in dropped:
        yield from _difference(path, before.files[path], "")


def _difference(path: str, old: str, new: str, *, bounded: bool = False) -> Iterator[str]:
    path = printable(path)  # a line end in a name must not look like a line of the file
    before, after = old.splitlines(), new.splitlines()
    if bounded and len(before) + len(after) > MOST_LINES:
        yield f"{path} is too long to compare line by line"
    elif before == after and old != new:
        yield f"{path} differs only in its line endings"
    else:
        yield from unified_diff(before, after, f"a/{path}", f"b/{path}", lineterm="")
