import json
from pathlib import Path

import pytest
from msgspec.structs import force_setattr, replace

from agent_sandbox.features.clones.fetched import as_json as fetched_json
from agent_sandbox.features.review.changes import Found, find_changes, take
from agent_sandbox.features.review.kinds import kind_of
from agent_sandbox.features.session import run_summary as module
from agent_sandbox.features.session.run_summary import Output, Summary, Traffic, as_json, as_markdown
from agent_sandbox.features.traffic.record import read_record
from clone_worlds import fetched_clone
from log_lines import denied

HOSTILE = "GET https://a.test/|`<img src=x>`[x](https://evil.test)\x1b[2J"


def traffic(*lines: str) -> Traffic:
    found = Traffic()
    for line in lines:
        record = read_record(line)
        assert record is not None
        found.add(record)
    return found


def output(text: str) -> Output:
    found = Output()
    found.add(text.encode())
    return found


def changed(root: Path, *paths: str) -> Found:
    """Return the changes to review after these files are created."""
    before = take(root)
    for path in paths:
        (root / path).write_text("x")
    return find_changes(root, before)


def summary(root: Path, *paths: str, result: str = "done\n", found: Traffic | None = None) -> Summary:
    return Summary(
        project="app-1",
        agent="example",
        exit_code=3,
        seconds=61.23,
        output=output(result),
        traffic=found,
        review=changed(root, *paths),
    )


def test_json_has_result_traffic_denials_and_changes(tmp_path: Path) -> None:
    found = traffic(
        denied("GET https://a.test/", decision="allow", bytes_out=1, bytes_in=50),
        denied("GET https://a.test/", decision="allow", event="websocket", bytes_out=2, bytes_in=3),
        denied("GET https://b.test/x"),
        denied("GET https://b.test/x"),
        denied("GET https://c.test/", reason="other"),
    )
    assert as_json(summary(tmp_path, "Makefile", "notes", found=found)) == {
        "project": "app-1",
        "agent": "example",
        "exit_code": 3,
        "problems": [],
        "seconds": 61.2,
        "result": "done\n",
        "result_truncated": False,
        "requests": {"allowed": 1, "denied": 3},
        "bytes": {"sent": 3, "received": 53},
        "denials": [
            {"request": "GET https://b.test/x", "reason": "because", "count": 2},
            {"request": "GET https://c.test/", "reason": "other", "count": 1},
        ],
        "review": {
            "changes": [{"path": "Makefile", "kind": "build", "how": "new", "notes": []}],
            "complete": True,
        },
        "clone": None,
    }


def test_a_clone_is_part_of_the_summary(tmp_path: Path) -> None:
    fetched = fetched_clone()
    run = replace(summary(tmp_path), clone=fetched)
    assert as_json(run)["clone"] == {**fetched_json(fetched), "kept": False}
    assert (
        "### Fetched\n\n| Branch | New commits |\n| --- | --- |\n| box/fix-1/main | 2 |\n\n### Result"
        in as_markdown(run)
    )
    run = replace(run, clone=replace(fetched, branches=fetched.branches * 21))
    assert "| box/fix-1/main | 2 |\n\nand 1 more\n\n### Result" in as_markdown(run)


def test_markdown_has_numbers_denials_changes_and_result(tmp_path: Path) -> None:
    found = traffic(denied("GET https://b.test/x"), denied("GET https://b.test/x", decision="allow", bytes_in=5000))
    assert as_markdown(summary(tmp_path, "Makefile", found=found)) == (
        "## example in agent-sandbox\n\n"
        "| Exit code | Time | Requests | Denied | Sent | Received | To review |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
        "| 3 | 61 s | 2 | 1 | 0 B | 5 kB | 1 |\n\n"
        "### Denied\n\n"
        "| Request | Times | Reason |\n"
        "| --- | --- | --- |\n"
        "| GET https&#58;//b&#46;test/x | 1 | because |\n\n"
        "### Review before you run it\n\n"
        f"build: {kind_of('Makefile').why}\n\n"  # type: ignore[union-attr]
        "- new: Makefile\n\n"
        "### Result\n\n"
        "```text\ndone\n```\n"
    )


def test_leaves_out_traffic_that_the_proxy_did_not_report(tmp_path: Path) -> None:
    run = summary(tmp_path, result="")
    found = as_json(run)
    assert (found["requests"], found["bytes"], found["denials"]) == (None, None, [])
    assert as_markdown(run) == (
        "## example in agent-sandbox\n\n| Exit code | Time | To review |\n| --- | --- | --- |\n| 3 | 61 s | 0 |\n"
    )


def test_marks_an_incomplete_search_for_changes(tmp_path: Path) -> None:
    run = summary(tmp_path)
    force_setattr(run, "review", Found(changes=(), skipped=(), complete=False))
    assert as_json(run)["review"] == {"changes": [], "complete": False}
    assert "| 0 or more |" in as_markdown(run)


@pytest.mark.parametrize(
    "result", ["```\n# out\n````", "~~~\n</details>", "\x1b]8;;https://evil.test\x07\r::set-env::"]
)
def test_escapes_markdown_and_terminal_controls_from_the_sandbox(tmp_path: Path, result: str) -> None:
    found = traffic(denied("GET https://b.test/x", reason=HOSTILE, path="/`|"))
    name = "Dockerfile.`|<b>@octocat"
    text = as_markdown(summary(tmp_path, name, result=result, found=found))
    head, _, block = text.partition("### Result\n\n")
    assert not set("`<>[@\x1b") & set(head)
    assert all(line.count("|") in {0, 4, 8} for line in head.splitlines())
    fence = block.partition("text\n")[0]
    lines = block.splitlines()
    assert [number for number, line in enumerate(lines) if line.startswith(fence)] == [0, len(lines) - 1]
    assert not {"\x1b", "\r", "\x07"} & set(text)
    json.dumps(as_json(summary(tmp_path, result=result, found=found)))


def test_limits_the_length_of_the_result_and_the_number_of_denials_and_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_RESULT", 10)
    monkeypatch.setattr(module, "MOST_DENIALS", 30)
    text = Output()
    for _ in range(9):
        text.add(b"0123456789abc")
        assert len(text.data) <= 20
    assert (text.text, text.truncated) == ("3456789abc", True)
    found = traffic(*(denied(f"GET https://{number}.test/{'x' * 300}") for number in range(40)))
    run = as_json(summary(tmp_path, found=found))
    assert (run["requests"]["denied"], len(found.denials), len(run["denials"])) == (40, 30, 20)
    assert {len(one["request"]) for one in run["denials"]} == {203}
    many = as_markdown(summary(tmp_path, *(f"Dockerfile.{number}" for number in range(25))))
    assert many.count("- new: ") == 20
    assert "- and 5 more" in many


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    text = Output()
    text.add(b"\xff\xc3")
    text.add(b"\xa9")
    assert (text.text, text.truncated) == ("\ufffd\u00e9", False)
