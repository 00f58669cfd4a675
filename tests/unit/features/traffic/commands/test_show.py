import json
from itertools import count
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.traffic.commands.show import show
from agent_sandbox.features.traffic.record import read_record
from log_lines import denied
from table_tests import each

FULL = denied(
    "POST https://a.test/\x1b[2J",
    decision="allow",
    rule="policy.yaml:3",
    cause="",
    reason="allowed by policy.yaml:3",
    status=200,
    bytes_out=6,
    bytes_in=5_000,
    duration_ms=7.5,
    client="172.18.0.3:40000",
    tool="npm",
    mcp="tools/call search",
    secrets=[{"secret": "t", "kind": "bearer", "source": "stored", "age_s": 9}],
)
TWICE = denied("GET https://b.test/")
LINES = (FULL, TWICE, TWICE, denied("GET https://c.test/", time=""))
RECORDS = [record for record in map(read_record, LINES) if record]
FULL_ID, TWICE_ID, LAST_ID = (RECORDS[place].id for place in (0, 1, 3))


def id_of(line: str) -> str:
    record = read_record(line)
    assert record is not None
    return record.id


def alike() -> tuple[str, str]:
    """Return two lines whose IDs have the same first four digits."""
    lines: dict[str, str] = {}
    for number in count():
        line = denied(f"GET https://a.test/{number}")
        if (other := lines.setdefault(id_of(line)[:4], line)) is not line:
            return line, other
    raise AssertionError


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log").write_text("\n".join(LINES))
    return tmp_path / "log"


def test_prints_every_field_with_a_value(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: show(FULL_ID[:10].upper(), file=log)) == 0
    assert capsys.readouterr().out == (
        f"id        {FULL_ID}\n"
        "time      2026-01-02 10:00:00, after 7.5 ms\n"
        "event     request\n"
        "request   POST https://a.test/\\x1b[2J (tools/call search)\n"
        "decision  allow\n"
        "rule      policy.yaml:3\n"
        "reason    allowed by policy.yaml:3\n"
        "status    200\n"
        "sent      6 B\n"
        "received  5 kB\n"
        "client    172.18.0.3:40000\n"
        "tool      npm\n"
        "mcp       tools/call search\n"
        "secret    t (bearer, stored, 9 s old)\n"
    )


def test_omits_fields_without_a_value(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: show(LAST_ID, file=log)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        *("id", "event", "request", "decision", "reason", "cause", "sent", "received")
    ]


def test_shows_identical_records_as_one_request(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: show(TWICE_ID, file=log, json=True)) == 0
    assert json.loads(capsys.readouterr().out)["host"] == "b.test"


@each("id", ["", "abc", "xyz0", "0" * 33, "\x1b[2J"])
def test_rejects_an_invalid_id(id: str, log: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: A002 - as in the command
    assert exit_code(lambda: show(id, file=log)) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: not the ID of a request: '")
    assert second == "  hint: agent-sandbox traffic lists the IDs"


def test_an_unknown_id_error_mentions_that_the_log_drops_records(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = "0" * 8
    assert exit_code(lambda: show(wanted, file=log)) == 1
    assert capsys.readouterr().err == (
        "error: no request in the audit log has the ID 00000000\n"
        "  hint: agent-sandbox traffic lists the IDs; the log drops its oldest records when it is full\n"
    )


def test_lists_the_requests_that_match_an_ambiguous_id(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = alike()
    log.write_text(f"{one}\n{other}")
    assert exit_code(lambda: show(id_of(one)[:4], file=log)) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"error: the IDs of 2 requests begin with {id_of(one)[:4]}:"
    assert [text.split()[0] for text in said[1:3]] == [id_of(one), id_of(other)]
    assert said[3] == "  hint: give more digits of the ID"
