import json
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.traffic.commands.top import top
from agent_sandbox.features.traffic.totals import By
from log_lines import denied

LINES = [
    denied("GET https://a.test/", decision="allow", bytes_in=2_000_000, bytes_out=10),
    denied("GET https://a.test/"),
    denied("POST https://b\u202e.test/", bytes_out=12_345),
]
TABLE = """\
HOST          REQUESTS  DENIED     SENT  RECEIVED  LAST
a.test               2       1     10 B      2 MB  01-02 10:00:00
b\\u202e.test         1       1  12.3 kB       0 B  01-02 10:00:00
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log").write_text("\n".join(LINES))
    return tmp_path / "log"


def test_prints_hosts_as_a_table(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: top(file=log)) == 0
    assert capsys.readouterr() == (TABLE, "")


def test_sorts_by_the_given_column_and_counts_all_hosts(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: top(file=log, by=By.SENT, limit=1)) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[1].startswith("b\\u202e.test  ")
    assert said.err == "1 of 2 hosts; --limit N shows more\n"


def test_json_output_has_numbers(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: top(file=log, method="GET", json=True)) == 0
    assert json.loads(capsys.readouterr().out) == {
        "hosts": [
            {
                "host": "a.test",
                "requests": 2,
                "denied": 1,
                "sent": 10,
                "received": 2_000_000,
                "last": "2026-01-02T10:00:00.000Z",
            }
        ],
        "all": 1,
    }


def test_reports_that_no_request_was_found(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: top(file=log, host="x.test")) == 0
    assert capsys.readouterr() == ("", "no such requests in the audit log\n")
