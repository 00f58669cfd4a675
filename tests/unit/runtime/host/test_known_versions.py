from pathlib import Path

import pytest

from agent_sandbox.runtime.host.known_versions import FILE, known_versions, remember_versions


def test_remembering_a_version_keeps_the_versions_of_other_agents(tmp_path: Path) -> None:
    state = tmp_path / "a" / "state"
    assert known_versions(state) == {}
    remember_versions(state, {"one": "1.0.0", "two": "2.0.0"})
    remember_versions(state, {"one": "1.1.0"})
    assert known_versions(state) == {"one": "1.1.0", "two": "2.0.0"}


@pytest.mark.parametrize("text", ["?", "[]", '{"one": 1, "two": "2\\u001b[2J"}', "\0"])
def test_a_damaged_file_counts_as_empty_and_is_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert known_versions(tmp_path) == {}
    remember_versions(tmp_path, {"one": "1.0.0"})
    assert known_versions(tmp_path) == {"one": "1.0.0"}


def test_remember_versions_ignores_a_failed_write(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    remember_versions(tmp_path / "file", {"one": "1.0.0"})
    assert known_versions(tmp_path / "file") == {}
