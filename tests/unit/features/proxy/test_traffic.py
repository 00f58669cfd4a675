import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_sandbox.features.proxy import traffic
from agent_sandbox.features.proxy.traffic import STDIN, traffic_lines
from agent_sandbox.problems import UserError


def test_reads_a_file_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\ntwo\xff\nthree")
    assert list(traffic_lines(tmp_path / "log")) == ["one\n", "two\ufffd\n", "three"]


def test_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"one\n")))
    assert list(traffic_lines(STDIN)) == ["one\n"]


def test_skips_lines_that_are_too_long_and_limits_their_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "LONGEST", 8)
    (tmp_path / "log").write_bytes(b"x" * 100 + b"\nshort\n" + b"y" * 9)
    assert list(traffic_lines(tmp_path / "log")) == ["short\n"]
    monkeypatch.setattr(traffic, "MOST_LINES", 2)
    (tmp_path / "log").write_bytes(b"1\n2\n3\n")
    assert list(traffic_lines(tmp_path / "log")) == ["1\n", "2\n"]


def test_a_missing_file_is_an_error_that_says_what_to_name(tmp_path: Path) -> None:
    expected = (
        f"{tmp_path}/log: cannot be read: no such file or directory;"
        " name an audit log: JSON lines, as `agent-sandbox proxy logs --json` prints them"
    )
    with pytest.raises(UserError) as caught:
        list(traffic_lines(tmp_path / "log"))
    assert str(caught.value) == expected
