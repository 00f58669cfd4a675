import json
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.policy.commands.diff import OPENS, STOPS, diff


def test_lists_what_becomes_reachable_before_what_stops(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("new.yaml").write_text("domains:\n  - example.org\n  - .b.example\ndeny: [x.b.example]\n")
    assert exit_code(lambda: diff(str(policy), "new.yaml")) == 0
    expected = (
        ".devcontainer/policy.yaml -> new.yaml\n"
        "becomes reachable\n"
        "  + any method .b.example                             new.yaml:3\n"
        "      but new.yaml:4 denies any method x.b.example\n"
        "  + no longer denied: POST https://example.org/admin  .devcontainer/policy.yaml:7\n"
        "stops\n"
        "  - GET, HEAD api.example.com/v1/...  .devcontainer/policy.yaml:5\n"
    )
    assert capsys.readouterr() == (expected, "")


def test_finds_no_difference_if_only_comments_differ(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("new.yaml").write_text(f"# the same\n{policy.read_text()}\n")
    assert exit_code(lambda: diff("new.yaml", exit_code=True)) == 0
    expected = "new.yaml -> .devcontainer/policy.yaml\nno difference in what is reachable\n"
    assert capsys.readouterr() == (expected, "")


def test_exits_with_1_on_a_difference_only_with_the_exit_code_option(policy: Path) -> None:
    Path("new.yaml").write_text("domains: [example.org]\n")
    assert exit_code(lambda: diff(str(policy), "new.yaml", exit_code=True)) == 1
    assert exit_code(lambda: diff(str(policy), "new.yaml")) == 0


def test_json_output_lists_what_opens_and_what_stops(policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("new.yaml").write_text(policy.read_text().replace("[GET]", "[GET, PUT]"))
    assert exit_code(lambda: diff(str(policy), "new.yaml", json=True)) == 0
    change = {"kind": "rule", "what": "PUT api.example.com/v1/...", "file": "new.yaml", "line": 5, "layer": "project"}
    assert json.loads(capsys.readouterr().out) == {
        "old": ".devcontainer/policy.yaml",
        "new": "new.yaml",
        "opens": [{**change, "but": []}],
        "stops": [],
    }


def test_every_kind_of_change_has_a_text_for_opening_and_for_stopping() -> None:
    assert (
        set(OPENS)
        == set(STOPS)
        == {"rule", "deny", "ask", "ceiling", "slash", "inspect", "target", "upstream", "budget"}
    )


def test_compares_two_files_outside_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.yaml", "b.yaml"):
        Path(name).write_text("domains: [example.org]\n")
    assert exit_code(lambda: diff("a.yaml", "b.yaml")) == 0
