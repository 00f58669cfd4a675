from pathlib import Path

import pytest

from agent_sandbox.runtime.host.known_versions import FILE, known_versions, remember_versions


def test_versions_are_remembered_beside_those_of_other_agents(tmp_path: Path) -> None:
    state = tmp_path / "a" / "state"
    assert known_versions(state) == {}
    remember_versions(state, {"one": "1.0.0", "two": "2.0.0"})
    remember_versions(state, {"one": "1.1.0"})
    assert known_versions(state) == {"one": "1.1.0", "two": "2.0.0"}


@pytest.mark.parametrize("text", ["?", "[]", '{"one": 1, "two": "2\\u001b[2J"}', "\0"])
def test_a_damaged_file_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert known_versions(tmp_path) == {}
    remember_versions(tmp_path, {"one": "1.0.0"})
    assert known_versions(tmp_path) == {"one": "1.0.0"}


def test_what_cannot_be_stored_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    remember_versions(tmp_path / "file", {"one": "1.0.0"})
    assert known_versions(tmp_path / "file") == {}
