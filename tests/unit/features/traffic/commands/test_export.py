import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.traffic.commands import export as subject
from agent_sandbox.features.traffic.commands.export import export
from log_lines import denied

LINES = [denied("GET https://a.test/", status=403), denied("POST https://b.test/", decision="allow", status=200)]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log").write_text("\n".join(LINES))
    return Path("log")


def hosts(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as database:
        return [host for (host,) in database.execute("SELECT host FROM records ORDER BY host")]


def test_writes_a_har_file_that_only_its_owner_can_read(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: export(har=Path("t.har"), file=log, denied=True)) == 0
    assert capsys.readouterr() == ("", "t.har: 1 request\n")
    assert [one["request"]["url"] for one in json.loads(Path("t.har").read_text())["log"]["entries"]] == [
        "https://a.test/"
    ]
    assert stat.S_IMODE(Path("t.har").stat().st_mode) == 0o600


def test_a_dash_prints_the_har_document(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: export(har=Path("-"), file=log)) == 0
    assert len(json.loads(capsys.readouterr().out)["log"]["entries"]) == 2


def test_adds_only_new_records_to_a_database(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = Path("t.db")
    assert exit_code(lambda: export(sqlite=database, file=log)) == 0
    log.write_text("\n".join((LINES[1], denied("GET https://c.test/"))))
    assert exit_code(lambda: export(sqlite=database, file=log)) == 0
    assert capsys.readouterr().err == "t.db: 2 new records\nt.db: 1 new record\n"
    assert hosts(database) == ["a.test", "b.test", "c.test"]
    assert stat.S_IMODE(database.stat().st_mode) == 0o600


def test_does_not_write_through_a_symbolic_link(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("target").write_bytes(b"")
    Path("t.db").symlink_to("target")
    assert exit_code(lambda: export(sqlite=Path("t.db"), file=log)) == 1
    assert "symbolic link" in capsys.readouterr().err
    Path("t.har").symlink_to("target")
    assert exit_code(lambda: export(har=Path("t.har"), file=log)) == 0
    assert Path("target").read_bytes() == b""


def test_does_not_write_through_a_journal_link_beside_the_database(log: Path) -> None:
    Path("target").write_text("kept")
    Path("t.db-journal").symlink_to("target")
    assert exit_code(lambda: export(sqlite=Path("t.db"), file=log)) == 0
    assert Path("target").read_text() == "kept"


def test_rejects_a_database_that_is_too_large(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(subject, "MOST_BYTES", 1 << 10)
    Path("t.db").write_bytes(b"x" * 1_025)
    assert exit_code(lambda: export(sqlite=Path("t.db"), file=log)) == 1
    assert capsys.readouterr().err == (
        "error: t.db: larger than 0 GiB\n  hint: move it away; the next export starts a new one\n"
    )


def test_reports_a_file_that_cannot_be_written(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: export(har=Path("no/t.har"), file=log)) == 1
    assert capsys.readouterr().err.startswith("error: no/t.har: ")


def test_requires_exactly_one_output_file(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ({}, {"har": Path("a"), "sqlite": Path("b")}):
        assert exit_code(lambda arguments=arguments: export(file=log, **arguments)) == 1  # type: ignore[misc]
        assert capsys.readouterr().err == (
            "error: name one file to write\n  hint: agent-sandbox traffic export --har FILE, or --sqlite FILE\n"
        )
