"""Records in an SQLite database, for DuckDB, pandas and `sqlite3`. No record is added twice.

The database is in memory here: SQLite itself opens no file. So no link, journal or trigger beside or in a file that
an agent could have written has any effect.
"""

import sqlite3
from typing import Self

from msgspec.structs import astuple

from agent_sandbox.features.traffic.record import Record, Use
from agent_sandbox.problems import Problem, UserError

MOST_BYTES = 1 << 30
RECORDS = """\
CREATE TABLE records (
    id TEXT PRIMARY KEY,
    time TEXT NOT NULL,
    event TEXT NOT NULL,
    decision TEXT NOT NULL,
    rule TEXT NOT NULL,
    cause TEXT NOT NULL,
    reason TEXT NOT NULL,
    scheme TEXT NOT NULL,
    host TEXT NOT NULL,
    port INTEGER,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    status INTEGER,
    tool TEXT NOT NULL,
    mcp TEXT NOT NULL,
    bytes_in INTEGER NOT NULL,
    bytes_out INTEGER NOT NULL,
    duration_ms REAL NOT NULL,
    client TEXT NOT NULL
) WITHOUT ROWID"""
SECRETS = """\
CREATE TABLE secrets (
    record TEXT NOT NULL REFERENCES records (id),
    secret TEXT NOT NULL,
    kind TEXT NOT NULL,
    source TEXT NOT NULL,
    age_s INTEGER NOT NULL
)"""
SCHEMA = {"records": RECORDS, "secrets": SECRETS}
# Without the fields that were added later: with a new column, the database of an earlier export would be refused.
COLUMNS = tuple(name for name in Record.__struct_fields__ if name not in {"secrets", "hint", "headers"})
ADD = f"INSERT OR IGNORE INTO records VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 - only question marks
ADD_USE = f"INSERT INTO secrets VALUES ({', '.join('?' * (1 + len(Use.__struct_fields__)))})"  # noqa: S608 - the same
OTHER = "not a database that `agent-sandbox traffic export` wrote"
HINT = "name another file, or remove this one"


class Database:
    """A database with the records of an earlier export, if `data` has one. `where` names it in errors."""

    def __init__(self, data: bytes = b"", *, where: str = "") -> None:
        self.added = 0
        self._database = sqlite3.connect(":memory:")
        if not data:
            for statement in SCHEMA.values():
                self._database.execute(statement)
            return
        try:
            self._load(data)
        except sqlite3.Error as error:
            self._database.close()
            raise UserError([Problem(where=where, what=OTHER, hint=HINT)]) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def _load(self, data: bytes) -> None:
        database = self._database
        database.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)  # noqa: FBT003 - its signature
        database.setconfig(sqlite3.SQLITE_DBCONFIG_TRUSTED_SCHEMA, False)  # noqa: FBT003 - the same
        database.deserialize(data)
        found = database.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
        if dict(found) != SCHEMA or len(found) != len(SCHEMA):
            raise sqlite3.DatabaseError
        if database.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
            raise sqlite3.DatabaseError

    def add(self, record: Record) -> None:
        """Add a record, unless it is there already."""
        values = tuple(getattr(record, name) for name in COLUMNS)
        if self._database.execute(ADD, values).rowcount:
            self.added += 1
            self._database.executemany(ADD_USE, ((record.id, *astuple(use)) for use in record.secrets))

    def data(self) -> bytes:
        """Return the content of the database's file."""
        self._database.commit()
        return self._database.serialize()
