#!/usr/bin/python3 -I
"""Write the project's MCP servers into the settings of each agent, and remove those that it no longer names.

The variable AGENT_SANDBOX_MCP lists a settings file below the home directory, the key in it, and the servers in the
agent's form, for each agent. A record beside each file says what was written; the arguments are the existing records.
Entries of the user's or the agent's, also with the name of one of the project's, stay as they are.
"""

import json
import os
import secrets
import stat
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RECORD = ".agent-sandbox-mcp.json"
MOST_BYTES = 32 << 20
type Entries = dict[str, Any]


def say(text: str) -> None:
    """Print a message."""
    print(f"agent-sandbox: {text}", file=sys.stderr, flush=True)


def read(path: str) -> str:
    """Return the text of a file, "" if there is none; the agent may have put anything in its place."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    with open(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise ValueError("it is not a regular file")
        content = opened.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError("it is too large")
    return content.decode()


def write(path: str, text: str) -> None:
    """Replace a file, whole or not at all; keep its mode."""
    mode = stat.S_IMODE(os.lstat(path).st_mode) if os.path.lexists(path) else 0o600
    new = f"{path}.{secrets.token_hex(8)}"
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(file, "wb") as opened:
            opened.write(text.encode())
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def mapping(value: object) -> Entries:
    """Return the value, or {} for None; raise ValueError unless it is a mapping."""
    if not isinstance(value, dict | None):
        raise ValueError("it has no mapping where one is expected")  # noqa: TRY004 - what JSON's parser raises
    return value or {}


def once(pairs: list[tuple[str, Any]]) -> Entries:
    """Return the members of a JSON object; writing it back would lose a repeated one."""
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError("a key is repeated")
    return dict(pairs)


class Json:
    """A JSON file. Its order is kept, its layout is not."""

    def parse(self, text: str) -> Entries:
        """Return its values."""
        return mapping(json.loads(text, object_pairs_hook=once)) if text.strip() else {}

    def edited(self, text: str, key: str, *, without: set[str], adding: Entries) -> str:
        """Return the text without some entries below a key, and with others."""
        document = self.parse(text)
        kept = {name: entry for name, entry in mapping(document.get(key)).items() if name not in without}
        return json.dumps({**document, key: {**kept, **adding}}, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


class Toml:
    """A TOML file, with a table for each entry. Everything else stays as it is, comments too."""

    def parse(self, text: str) -> Entries:
        """Return its values."""
        return tomllib.loads(text)

    def edited(self, text: str, key: str, *, without: set[str], adding: Entries) -> str:
        """Return the text without some entries below a key, and with others."""
        lines, leaving = [], False
        for line in text.splitlines(keepends=True):
            if line.lstrip().startswith("["):
                leaving = self._of_header(line)[:2] in {(key, name) for name in without}
            if not leaving or line.lstrip().startswith("#"):
                lines.append(line)
        kept = "".join(lines).rstrip("\n")
        return "\n\n".join(filter(None, [kept, *(self._table(key, *one) for one in adding.items())])) + "\n"

    def _of_header(self, line: str) -> tuple[str, ...]:
        """Return the keys in the header of a table, () if the line is something else."""
        keys: list[str] = []
        try:
            value: Any = self.parse(line)
        except ValueError:
            return ()
        while isinstance(value, dict) and len(value) == 1:
            ((name, value),) = value.items()
            keys.append(name)
        return tuple(keys)

    def _table(self, key: str, name: str, entry: Entries) -> str:
        lines = (f"{inner} = {self._value(value)}" for inner, value in entry.items())
        return "\n".join((f"[{key}.{name}]", *lines))

    def _value(self, value: object) -> str:
        if isinstance(value, dict):
            return f"{{ {', '.join(f'{name} = {self._value(inner)}' for name, inner in value.items())} }}"
        return json.dumps(value, ensure_ascii=False)


FORMATS: Mapping[str, Json | Toml] = {".json": Json(), ".toml": Toml()}


@dataclass(frozen=True)
class Record:
    """What was written below the `key` of a settings file: the values of each entry that is the project's."""

    file: str = ""
    key: str = ""
    servers: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str) -> "Record":
        """Return the record at this path; if it cannot be read, no entry is the project's."""
        try:
            said = mapping(json.loads(read(path) or "{}"))
            servers = {
                name: values for name, values in mapping(said.get("servers")).items() if isinstance(values, list)
            }
        except (OSError, ValueError, RecursionError):
            return cls()
        return cls(str(said.get("file")), str(said.get("key")), servers)

    def write(self, path: str) -> None:
        """Write it, or remove the file if nothing is the project's."""
        if self.servers:
            write(path, json.dumps(vars(self), indent=2, ensure_ascii=False) + "\n")
        elif os.path.lexists(path):
            os.unlink(path)


def reads_as(form: Json | Toml, text: str, wanted: Entries, key: str) -> bool:
    """Return whether a text has these values; an empty mapping at the key may be left out."""
    try:
        return {key: {}, **form.parse(text)} == wanted
    except ValueError:
        return False


def configure(path: str, key: str, servers: Entries) -> None:
    """Make these the servers that the project has in a file; raise ValueError or OSError if it cannot be done."""
    folder, file = os.path.split(path)
    beside = os.path.join(folder, RECORD)
    earlier = Record.read(beside)
    text, form = read(path), FORMATS[os.path.splitext(path)[1]]
    before = form.parse(text)
    present = mapping(before.get(key))
    ours = {name for name, entry in present.items() if entry in earlier.servers.get(name, [])}
    taken = present.keys() - ours
    for name in servers.keys() & taken:
        say(f"{path} has its own MCP server `{name}`, which is kept; the project's is not configured")
    adding = {name: entry for name, entry in servers.items() if name not in taken}
    after = Record(file, key, {name: [entry] for name, entry in adding.items()})
    if {name: present[name] for name in ours} != adding:
        edited = form.edited(text, key, without=ours, adding=adding)
        wanted = {name: entry for name, entry in present.items() if name not in ours} | adding
        if not reads_as(form, edited, {**before, key: wanted}, key):
            raise ValueError(f"`{key}` is written in a way that cannot be edited automatically")
        # Both count as the project's if this ends before the next line.
        both = {name: [*earlier.servers.get(name, []), *after.servers.get(name, [])] for name in ours | adding.keys()}
        Record(file, key, both).write(beside)
        write(path, edited)
    if earlier.servers != after.servers:
        after.write(beside)


def tried(path: str, key: str, servers: Entries) -> bool:
    """Configure one file, and report why it cannot be done."""
    try:
        configure(path, key, servers)
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())[:200]
        say(f"the project's MCP servers are not in {ascii(path)[1:-1]}: {why}")
        return False
    return True


def main(records: list[str]) -> int:
    """Configure all agents."""
    wanted = json.loads(os.environ.get("AGENT_SANDBOX_MCP") or "[]")
    places = {os.path.join(os.environ["HOME"], one["file"]): (one["key"], one["servers"]) for one in wanted}
    for record in records:
        said = Record.read(record)
        if os.path.splitext(said.file)[1] in FORMATS:
            path = os.path.join(os.path.dirname(record), os.path.basename(said.file))
            places.setdefault(path, (said.key, {}))
    failed = [path for path, (key, servers) in places.items() if not tried(path, key, servers)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
