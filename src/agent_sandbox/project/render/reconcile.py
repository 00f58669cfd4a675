"""Compare what `init` would write with the existing files, and lose nothing of the user's. Pure.

| file               | new     | ours, untouched | ours, edited             | not ours                 |
| the stack file     | written | updated         | kept, unless forced      | kept, unless forced      |
| devcontainer.json  | written | updated         | kept if it contradicts   | merged                   |
| .env               | written | merged          | kept if it contradicts   | merged                   |
|   with --no-dotenv | -       | cleared         | kept if it contradicts   | -                        |
| policy.yaml        | written | kept            | kept                     | kept                     |
| shared file        | written | updated         | kept, unless forced      | kept, unless forced      |
| .gitignore         | written | merged          | merged                   | merged                   |
| .devcontainer/.env | written | merged          | merged                   | merged                   |
"""

from collections.abc import Callable, Mapping
from difflib import unified_diff
from enum import StrEnum
from typing import Any

from msgspec import Struct

from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.render import devcontainer, dotenv
from agent_sandbox.project.render.editor_files import FILES
from agent_sandbox.project.render.formats import jsonc
from agent_sandbox.project.render.formats.header import INIT, Provenance, provenance_of, stamped, unix
from agent_sandbox.project.render.paths import DOTENV


class Verdict(StrEnum):
    """What happens to a file."""

    WRITTEN = "written"
    UPDATED = "updated"
    MERGED = "extended"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"
    KEPT = "kept"


class OnConflict(StrEnum):
    """What to do with a file that was edited or that we did not write."""

    KEEP = "keep"
    REPLACE = "replace"


class Change(Struct, frozen=True, kw_only=True):
    """One file: its current text, the rendered text, and what happens to it.

    UNCHANGED equals the rendered text; KEPT differs, and the user has to decide.
    """

    path: str
    verdict: Verdict
    before: str | None
    after: str
    why: str = ""

    @property
    def writes(self) -> bool:
        """Whether the file is to be written."""
        return self.verdict not in (Verdict.UNCHANGED, Verdict.KEPT)

    def diff(self) -> str:
        """Return the unified diff from the current text to the rendered one."""
        before, after = self.before or "", self.after
        if self.path == DOTENV:
            before, after = dotenv.without_values(before, before), dotenv.without_values(after, before)
        old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
        was = "/dev/null" if self.before is None else f"a/{self.path}"
        lines = unified_diff(old, new, was, f"b/{self.path}")
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def generated(  # noqa: PLR0913 - what is there, what would be, and how it is told
    path: str, before: str | None, body: str, *, comment: str, on_conflict: OnConflict, command: str = INIT
) -> Change:
    """Return the change of a file that is entirely ours; `command` is the one that writes it."""
    after = stamped(body, comment=comment, command=command)
    if before is None:
        return Change(path=path, verdict=Verdict.WRITTEN, before=None, after=after)
    if unix(before) == after:
        return Change(path=path, verdict=Verdict.UNCHANGED, before=before, after=before)
    provenance = provenance_of(before)
    if provenance is Provenance.OURS:
        return Change(path=path, verdict=Verdict.UPDATED, before=before, after=after)
    why = "it was edited" if provenance is Provenance.EDITED else "it was not written by agent-sandbox"
    verdict = Verdict.REPLACED if on_conflict is OnConflict.REPLACE else Verdict.KEPT
    return Change(path=path, verdict=verdict, before=before, after=after, why=why)


def yours(path: str, before: str | None, body: Callable[[], str]) -> Change:
    """Return the change of a file that is written once and then belongs to the user; only then is it rendered."""
    if before is None:
        return Change(path=path, verdict=Verdict.WRITTEN, before=None, after=body())
    return Change(path=path, verdict=Verdict.UNCHANGED, before=before, after=before)


def added(path: str, before: str | None, after: str) -> Change:
    """Return the change of a file to which lines were added."""
    if before == after:
        return Change(path=path, verdict=Verdict.UNCHANGED, before=before, after=after)
    return Change(path=path, verdict=Verdict.WRITTEN if before is None else Verdict.MERGED, before=before, after=after)


def merged_devcontainer(
    path: str, before: str | None, body: str, document: Mapping[str, Any], *, on_conflict: OnConflict
) -> Change:
    """Return the change of devcontainer.json: set our members, keep all others."""
    if before is None or provenance_of(before) is Provenance.OURS:
        return generated(path, before, body, comment="//", on_conflict=on_conflict)
    present = _parsed(path, before)
    refuse_openers(path, present)
    wanted = devcontainer.required_members(document, present.values)
    if not wanted:
        return Change(path=path, verdict=Verdict.UNCHANGED, before=before, after=before)
    after = jsonc.set_members(before, wanted)
    replaced = [f"`{key}` was {jsonc.to_text(present.values[key])}" for key in wanted if key in present.values]
    updates = wanted.keys() == {FILES} and devcontainer.names_former_file(present.values)
    edited = provenance_of(before) is Provenance.EDITED and not updates
    if edited and on_conflict is OnConflict.KEEP:
        why = "it was edited where the stack depends on it"
        return Change(path=path, verdict=Verdict.KEPT, before=before, after=after, why=why)
    return Change(path=path, verdict=Verdict.MERGED, before=before, after=after, why=", ".join(replaced))


def _parsed(path: str, text: str) -> jsonc.Document:
    try:
        return jsonc.parse(text)
    except jsonc.JsoncError as error:
        where = f"{path}:{error.line}:{error.column}"
        hint = "fix it or move it away; it must be readable, because it is merged, not replaced"
        raise UserError([Problem(where=where, what=error.what, hint=hint)]) from error


def refuse_openers(path: str, present: jsonc.Document) -> None:
    """Raise UserError if a devcontainer.json weakens the sandbox."""
    problems = [
        Problem(where=f"{path}:{present.line_of(key)}", what=f"`{key}` {why}", hint="remove it")
        for key, why in devcontainer.openers(present.values).items()
    ]
    if problems:
        raise UserError(problems)


def merged_dotenv(
    path: str, before: str | None, values: Mapping[str, str], *, former: frozenset[str], on_conflict: OnConflict
) -> Change:
    """Return the change of `.env`: set our variables; `former` are values that an earlier `init` set."""
    text = before or ""
    present = {key: found.value for key, found in dotenv.assignments(text).items()}
    after = dotenv.set_variables(
        text, {key: value for key, value in values.items() if not _holds(present.get(key), value)}
    )
    if before is None:
        return Change(path=path, verdict=Verdict.WRITTEN, before=None, after=after)
    if after == before:
        return Change(path=path, verdict=Verdict.UNCHANGED, before=before, after=before)
    contrary = [
        f"`{key}` is {present[key]}"
        for key, value in values.items()
        if key in present and not _holds(present[key], value) and present[key] not in former
    ]
    verdict = Verdict.KEPT if contrary and on_conflict is OnConflict.KEEP else Verdict.MERGED
    return Change(path=path, verdict=verdict, before=before, after=after, why=", ".join(contrary))


def cleared_dotenv(
    path: str, before: str, values: Mapping[str, str], *, former: frozenset[str], on_conflict: OnConflict
) -> Change:
    """Return the change of `.env` that removes our variables; `former` are values that an earlier `init` set."""
    present = {key: found.value for key, found in dotenv.assignments(before).items() if key in values}
    ours = {key for key, value in present.items() if _holds(value, values[key]) or value in former}
    after = dotenv.remove_variables(before, ours) if ours else before
    if after == before:
        return Change(path=path, verdict=Verdict.UNCHANGED, before=before, after=before)
    shared = [f"`{key}` is {present[key]}" for key in sorted(ours) if present[key] not in {values[key], *former}]
    verdict = Verdict.KEPT if shared and on_conflict is OnConflict.KEEP else Verdict.UPDATED
    return Change(path=path, verdict=verdict, before=before, after=after, why=", ".join(shared))


def _holds(present: str | None, value: str) -> bool:
    """Return whether a variable has the needed value; the list of files may name more after ours."""
    return present is not None and (present == value or (value.endswith(".yml") and present.startswith(f"{value}:")))
