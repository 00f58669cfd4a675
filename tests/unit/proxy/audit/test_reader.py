import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.proxy.audit.reader import LogReader, show, wanted
from agent_sandbox.proxy.audit.rotating_file import RotatedFile


def line(host: str, event: str = "request", decision: str = "deny") -> bytes:
    return json.dumps({"event": event, "decision": decision, "host": host}).encode() + b"\n"


def shown(path: Path, *then: Callable[[], object], denied: bool = False, tail: int | None = None) -> list[str]:
    """Return the hosts shown while the steps in `then` happen in order; stop after the last one."""
    written: list[bytes] = []
    happening = iter(then)

    def wait() -> bool:
        for happen in happening:
            happen()
            return True
        return False

    show(path, written.append, wanted=wanted(denied=denied), tail=tail, wait=wait)
    return [json.loads(text)["host"] for text in b"".join(written).splitlines()]


def test_rotated_files_are_one_log_oldest_line_first(tmp_path: Path) -> None:
    log = RotatedFile(tmp_path / "log", limit=2 * len(line("a")), older=2)
    for host in "abcdef":
        log.write(line(host))
    log.close()
    assert len(list(tmp_path.iterdir())) == 3
    assert shown(tmp_path / "log") == list("abcdef")


def test_shows_only_traffic_and_with_denied_only_its_denials(tmp_path: Path) -> None:
    lines = (line("a"), line("b", decision="allow"), line("c", event="health"), line("d", event="start"), b"{torn\n")
    (tmp_path / "log").write_bytes(b"".join(lines))
    assert shown(tmp_path / "log") == ["a", "b"]
    assert shown(tmp_path / "log", denied=True) == ["a"]


def test_tail_does_not_count_the_records_of_a_start(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(line("a") + line("b") + line("c", event="start"))
    assert shown(tmp_path / "log", tail=1) == ["b"]
    assert shown(tmp_path / "log", tail=0) == []


def test_shows_an_added_line_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(line("a"))
    log = path.open("ab", buffering=0)
    got = shown(path, lambda: log.write(line("b")[:9]), lambda: None, lambda: log.write(line("b")[9:] + line("c")))
    log.close()
    assert got == ["a", "b", "c"]


def test_a_log_that_is_rotated_while_it_is_followed_loses_no_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = RotatedFile(path, limit=150, older=3)
    log.write(line("a"))
    got = shown(path, *(lambda host=host: log.write(line(host)) for host in "bcdef"))
    log.close()
    assert got == list("abcdef")


def test_reads_a_line_that_is_written_just_before_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(line("a"))

    def rotate() -> None:
        with path.open("ab") as log:
            log.write(line("b"))
        path.replace(tmp_path / "log.1")
        path.write_bytes(line("c"))

    assert shown(path, rotate) == ["a", "b", "c"]


def test_continues_if_the_file_is_missing_during_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(line("a"))
    assert shown(path, lambda: path.replace(tmp_path / "log.1"), lambda: path.write_bytes(line("b"))) == ["a", "b"]


def test_a_rotation_while_the_files_are_opened_shows_no_line_twice(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(line("a"))
    (tmp_path / "log.1").hardlink_to(path)  # as if it had been opened, and renamed
    with LogReader(path) as log:
        assert list(log.read()) == [line("a")]


def test_reports_a_missing_log(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        LogReader(tmp_path / "log")
    assert str(caught.value) == f"{tmp_path}/log: no audit log; has the proxy been started?"


def test_ignores_lines_that_are_not_json_objects() -> None:
    is_wanted = wanted(denied=False)
    lines = (b"[1]", b'"x"', b"3", b"[" * 100_000, b"9" * 5_000, b'{"event": "request"}')
    assert [is_wanted(line) for line in lines] == [False, False, False, False, False, True]
