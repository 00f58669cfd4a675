import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import astuple

from agent_sandbox.features.traffic.record import Record, read_record
from agent_sandbox.features.traffic.sqlite import COLUMNS, Database
from agent_sandbox.problems import UserError
from log_lines import denied
from table_tests import each

SECRETS = [{"secret": "t", "kind": "bearer", "source": "stored", "age_s": 9}]
LINES = (denied("GET https://a.test/", secrets=SECRETS), denied("POST https://b.test/'); DROP TABLE records; --"))


def record(line: str) -> Record:
    found = read_record(line)
    assert found is not None
    return found


def made(*lines: str, data: bytes = b"") -> tuple[int, bytes]:
    with Database(data, where="x.db") as database:
        for line in lines:
            database.add(record(line))
        return database.added, database.data()


def rows(tmp_path: Path, data: bytes, question: str) -> list[tuple[object, ...]]:
    (tmp_path / "x.db").write_bytes(data)
    with closing(sqlite3.connect(tmp_path / "x.db")) as database:
        return database.execute(question).fetchall()


def test_stores_records_as_rows_with_the_field_names_of_the_audit_log(tmp_path: Path) -> None:
    added, data = made(*LINES)
    assert added == 2
    found = rows(tmp_path, data, "SELECT * FROM records ORDER BY host")
    assert found == [astuple(record(line))[: len(COLUMNS)] for line in LINES]
    assert list(Record.__struct_fields__) == [*COLUMNS, "secrets", "hint", "headers"]
    assert rows(tmp_path, data, "SELECT * FROM secrets") == [(record(LINES[0]).id, "t", "bearer", "stored", 9)]


def test_adds_each_record_once_and_keeps_records_that_the_log_has_dropped(tmp_path: Path) -> None:
    _, first = made(*LINES)
    added, data = made(LINES[0], denied("GET https://c.test/"), data=first)
    assert added == 1
    assert rows(tmp_path, data, "SELECT host FROM records ORDER BY host") == [
        ("a.test",),
        ("b.test",),
        ("c.test",),
    ]
    assert rows(tmp_path, data, "SELECT count(*) FROM secrets") == [(1,)]


def other(statement: str) -> bytes:
    """Return the content of a database that another program changed."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(made(*LINES)[1])
        database.executescript(statement)
        database.commit()
        return database.serialize()


@each(
    "data",
    [
        b"no database",
        b"SQLite format 3\0" + b"\xff" * 4_080,
        made(*LINES)[1][:8_192] + b"\xff" * 8_192,
        other("DROP TABLE secrets"),
        other("CREATE TABLE more (x)"),
        other("CREATE VIEW v AS SELECT 1"),
        other("CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END"),
        other("ALTER TABLE records ADD COLUMN x"),
    ],
)
def test_rejects_a_database_that_export_did_not_write(data: bytes) -> None:
    with pytest.raises(UserError) as caught:
        Database(data, where="x.db")
    assert str(caught.value) == (
        "x.db: not a database that `agent-sandbox traffic export` wrote; name another file, or remove this one"
    )
