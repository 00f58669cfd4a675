"""The record of a stack: what it is, in a file of ours beside the stack file. It is written and read here alone.

A record holds for one text of the stack file, which it names by its digest. For any other, which the user edited or
an earlier version wrote, what would run is read from that text: a record never decides against it. Where the user has
not agreed to it, a record does not count at all.
"""

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from agent_sandbox.agents.pin import Pins, pins_in
from agent_sandbox.host.files import read_text
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.documents import mapping
from agent_sandbox.project.render.formats.foreign import load_foreign
from agent_sandbox.project.render.formats.header import Provenance, provenance_of, unix
from agent_sandbox.project.render.paths import RECORD, STACK
from agent_sandbox.project.render.record import DOTENV_KEY, SETTINGS_KEY, Choices, agents_in, choices_in
from agent_sandbox.stack.engine import FILE_KIND
from agent_sandbox.stack.limits import kept, limits
from agent_sandbox.stack.naming import RECORD as IN_STACK_FILE
from agent_sandbox.stack.recorded import Facts, Ide, Owner, ServiceBeside

if TYPE_CHECKING:
    from agent_sandbox.stack.model import Stack
    from agent_sandbox.stack.workspace import Workspace

VERSION = 1
MOST_DIGITS = 10
# As the engine takes it. A stack's directories on this machine are named by it, too.
NAME = re.compile("[a-z0-9][a-z0-9_-]*")
LONGEST_KEY = 40  # that is shown
UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`(?: - at `.*`)?", re.DOTALL)
RENEW = "agent-sandbox init writes it again"
REPLACE = "agent-sandbox init AGENT --force replaces it"


class Record(Choices, frozen=True, kw_only=True):
    """What one clone's stack is: its choices, its name, its owner, and what its containers are given."""

    name: str
    owner: Owner
    # Whether the user's own settings of the agents are copied.
    settings: bool = False
    facts: Facts = Facts()


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file as JSON; `stack_file` is the digest of the stack file that the record holds for."""

    version: int
    stack_file: str
    name: str
    title: str
    agents: tuple[str, ...]
    pins: dict[str, str]
    ide: Ide
    owner: Owner
    limits: dict[str, str]
    settings: bool
    dotenv: bool
    project_file: str
    facts: Facts


def record_of(stack: "Stack", workspace: "Workspace", pins: Pins) -> Record:
    """Return the record of a stack."""
    from agent_sandbox.project.facts import facts_of  # noqa: PLC0415 - most commands only read a record

    return Record(
        name=stack.name,
        agents=stack.agents,
        pins=pins,
        title=workspace.title,
        ide=workspace.ide,
        owner=workspace.owner,
        limits=workspace.limits,
        settings=bool(workspace.settings),
        dotenv=workspace.dotenv,
        project_file=workspace.project_file,
        facts=facts_of(stack),
    )


def record_text(record: Record, stack_file: str) -> str:
    """Return the text of the record's file, for this text of the stack file."""
    return _text(record, _digest(stack_file))


def _text(record: Record, digest: str) -> str:
    pins = {name: pin.text for name, pin in record.pins.items()}
    said = {name: getattr(record, name) for name in Record.__struct_fields__}
    file = _File(version=VERSION, stack_file=digest, **said | {"pins": pins, "limits": kept(record.limits)})
    return msgspec.json.format(msgspec.json.encode(file, order="deterministic"), indent=2).decode() + "\n"


def recorded(texts: Mapping[str, str], root: Path) -> Record:
    """Return the record in the texts of a project's files; raise UserError if it is not valid."""
    return _held(texts, root) or imported(texts.get(STACK, ""), root)


def facts_said(texts: Mapping[str, str], root: Path) -> Facts:
    """Return the facts in the texts of a project's files, also without a valid record of the stack's name."""
    record = _held(texts, root)
    return record.facts if record else _facts(_document(texts.get(STACK, ""), root / STACK))


def known(texts: Mapping[str, str | None]) -> Record | None:
    """Return the record in these texts, or None if the stack file is not ours."""
    stack, text = texts.get(STACK) or "", texts.get(RECORD)
    if provenance_of(stack) is Provenance.FOREIGN:
        return None
    # A record that is not valid is written again, from what the stack file says.
    for found in ({STACK: stack, RECORD: text} if text is not None else {}, {STACK: stack}):
        with suppress(UserError):
            return recorded(found, Path())
    return None


def uses_dotenv(texts: Mapping[str, str | None]) -> bool:
    """Return whether the stack of these files takes names of further files from the project's `.env`."""
    # Most projects do: parsing a stack file takes longer than all the rest.
    said = texts.get(RECORD) is not None or DOTENV_KEY in (texts.get(STACK) or "")
    record = known(texts) if said else None
    return record is None or record.dotenv


def record_files(root: Path) -> dict[str, str]:
    """Return the texts of the project's record and of its stack file, as far as they exist."""
    found = {path: read_text(root, path) for path in (STACK, RECORD)}
    return {path: text for path, text in found.items() if text is not None}


def require_true(texts: Mapping[str, str], root: Path) -> None:
    """Raise UserError if the record says anything else than the stack file that would run."""
    record = _held(texts, root)
    if record is None or record == (runs := imported(texts.get(STACK, ""), root)):
        return
    keys = (*_differing(record, runs), *_differing(record.facts, runs.facts))
    wrong = ", ".join(f"`{key}`" for key in dict.fromkeys(keys) if key != "facts")
    raise _refused(root / RECORD, f"says otherwise than {Path(STACK).name} beside it: {wrong}")


def _differing(one: Struct, other: Struct) -> tuple[str, ...]:
    return tuple(key for key in one.__struct_fields__ if getattr(one, key) != getattr(other, key))


def imported(text: str, root: Path) -> Record:
    """Return what a stack file alone says: of a version without records, or edited by the user."""
    file = root / STACK
    document = _document(text, file)
    said, name = mapping(document.get(IN_STACK_FILE)), document.get("name")
    dev, named = said.get("dev"), isinstance(name, str) and NAME.fullmatch(name) is not None
    if not (named and agents_in(said) and isinstance(dev, str)):
        what = f"not a {FILE_KIND} of agent-sandbox: it has no valid `name` or no `{IN_STACK_FILE}`"
        raise UserError([Problem(where=str(file), what=what, hint=REPLACE)])
    owner = _owner(file, dev)
    try:
        chosen = choices_in({"ide": Ide.VSCODE, **said})
    except (TypeError, ValueError, UserError) as error:
        raise UserError([Problem(where=str(file), what=f"`{IN_STACK_FILE}` is not valid", hint=REPLACE)]) from error
    facts, settings = _facts(document), said.get(SETTINGS_KEY) == "true"
    return Record(name=str(name), owner=owner, settings=settings, facts=facts, **chosen)


def _held(texts: Mapping[str, str], root: Path) -> Record | None:
    """Return the record if it holds for the stack file."""
    text = texts.get(RECORD)
    record, digest = _parsed(unix(text), root / RECORD) if text is not None else (None, "")
    return record if digest == _digest(texts.get(STACK, "")) else None


@lru_cache(maxsize=4)  # cached: a command reads it for several things
def _parsed(text: str, file: Path) -> tuple[Record, str]:
    """Return the record in the file, and the digest of the stack file that it holds for."""
    try:
        said = msgspec.json.decode(text.encode("utf-8", "surrogatepass"), type=_File)
        others = {name: getattr(said, name) for name in (*Record.__struct_fields__,) if name not in {"pins", "limits"}}
        record = Record(**others, pins=pins_in(said.pins), limits=limits(said.limits))
    except msgspec.DecodeError as error:
        raise _refused(file, _what(str(error))) from error
    except UserError as error:
        raise _refused(file, f"`limits` is not valid: {error}") from error
    # One text for one record: no key twice, no other version, nothing that was left out above.
    valid = said.agents and NAME.fullmatch(said.name) and min(said.owner.uid, said.owner.gid) >= 0
    if not valid or _text(record, said.stack_file) != text:
        raise _refused(file, "not as agent-sandbox writes it")
    return record, said.stack_file


def _what(error: str) -> str:
    unknown = UNKNOWN.fullmatch(error)
    if unknown is None:
        return f"not a valid record: {error}"
    keys = [key for one in (_File, Facts, Owner, ServiceBeside) for key in one.__struct_fields__]
    key = unknown[1][:LONGEST_KEY]
    nearest = get_close_matches(key, keys, n=1)
    return f"unknown key `{key}`" + (f"; did you mean `{nearest[0]}`?" if nearest else "")


def _refused(file: Path, what: str) -> UserError:
    return UserError([Problem(where=str(file), what=what, hint=RENEW)])


def _digest(text: str) -> str:
    return hashlib.sha256(unix(text).encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=4)  # cached: as above
def _document(text: str, file: Path) -> Mapping[str, Any]:
    return mapping(load_foreign(text, file=str(file)))


def _facts(document: Mapping[str, Any]) -> Facts:
    from agent_sandbox.project.facts import facts_in  # noqa: PLC0415 - most stacks have a record that holds

    return facts_in(document)


def _owner(file: Path, dev: str) -> Owner:
    uid, _, gid = dev.partition(":")
    if not all(one.isascii() and one.isdigit() and len(one) <= MOST_DIGITS for one in (uid, gid)):
        what = f"`{IN_STACK_FILE}.dev` is `{dev}`; it must be two numbers, `UID:GID`"
        raise UserError([Problem(where=str(file), what=what, hint=REPLACE)])
    return Owner(uid=int(uid), gid=int(gid))
