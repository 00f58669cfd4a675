import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.traffic.commands.list import list as list_
from agent_sandbox.features.traffic.record import read_record
from fake_tty import Screen
from log_lines import denied

LINES = [
    denied("GET https://a.test/\x1b[2J", status=403),
    denied("POST http://b.test:8080/i", decision="allow", status=200),
    denied("GET https://c.test/\u202egnp.exe", status=None, at="11:00:00"),
]
IDS = [record.id[:8] for record in map(read_record, LINES) if record]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log").write_text("\n".join(LINES))
    return tmp_path / "log"


def test_prints_a_table_with_the_newest_request_last(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: list_(file=log)) == 0
    assert capsys.readouterr() == (
        (
            "ID        TIME            DECISION   REQUEST\n"
            f"{IDS[0]}  01-02 10:00:00  deny  403  GET https://a.test/\\x1b[2J\n"
            f"{IDS[1]}  01-02 10:00:00  allow 200  POST b.test:8080/i\n"
            f"{IDS[2]}  01-02 11:00:00  deny       GET https://c.test/\\u202egnp.exe\n"
        ),
        "",
    )


def test_does_not_shorten_the_mcp_message_in_a_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = denied(f"POST https://mcp.a.test/{'x' * 60}", status=403, mcp="tools/call delete_file")
    (tmp_path / "log").write_text(line)
    monkeypatch.setattr("agent_sandbox.cli.terminal.output.width_of", lambda *_: 80)
    assert exit_code(lambda: list_(file=tmp_path / "log")) == 0
    _, row = capsys.readouterr().out.splitlines()
    assert "  tools/call delete_file  POST https://" in row
    assert len(row) <= 80


def test_limit_lists_only_the_last_requests(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: list_(file=log, limit=1, denied=True)) == 0
    said = capsys.readouterr()
    assert [line[:8].rstrip() for line in said.out.splitlines()] == ["ID", IDS[2]]
    assert said.err == "the last 1 of 2; --limit N shows more\n"


def test_json_output_has_one_record_per_line(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: list_(file=log, json=True)) == 0
    text = capsys.readouterr().out
    assert [json.loads(line)["id"][:8] for line in text.splitlines()] == IDS
    assert text.isascii()
    assert exit_code(lambda: list_(file=log, json=True, limit=1)) == 0
    assert [json.loads(line)["host"] for line in capsys.readouterr().out.splitlines()] == ["c.test"]


def test_reports_that_no_request_was_found(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: list_(file=log, host="x.test")) == 0
    assert capsys.readouterr() == ("", "no such requests in the audit log\n")
    assert exit_code(lambda: list_(file=log, host="x.test", json=True)) == 0
    assert capsys.readouterr() == ("", "")


def test_omits_the_date_of_requests_of_today(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    (tmp_path / "log").write_text(denied("GET https://a.test/", time=now))
    assert exit_code(lambda: list_(file=tmp_path / "log")) == 0
    time = capsys.readouterr().out.splitlines()[1].split("  ")[1]
    assert len(time) == len("10:00:00")


def test_shortens_rows_to_the_width_of_the_terminal(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", screen := Screen())
    log.write_text(denied(f"GET https://{'a' * 200}.test/{'b' * 2000}"))
    assert exit_code(lambda: list_(file=log)) == 0
    assert [len(line) for line in screen.getvalue().splitlines()] == [43, 80]
