import os
from pathlib import Path

import pytest

from agent_sandbox.features.policy import scan
from agent_sandbox.features.policy.scan import MAX_BYTES, MAX_FILES, names_at_top, naming_files


def test_reads_only_files_that_can_name_hosts(tmp_path: Path) -> None:
    (tmp_path / ".npmrc").write_text("registry=x")
    (tmp_path / "README.md").write_text("x")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".npmrc").write_text("x")
    wrapper = tmp_path / "gradle" / "wrapper"
    wrapper.mkdir(parents=True)
    (wrapper / "gradle-wrapper.properties").write_text("y")
    assert naming_files(tmp_path) == {".npmrc": "registry=x", "gradle/wrapper/gradle-wrapper.properties": "y"}


def test_skips_links_pipes_and_directories(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / ".npmrc").symlink_to("secret")
    (tmp_path / "pip.conf").mkdir()
    os.mkfifo(tmp_path / "uv.lock")
    assert naming_files(tmp_path) == {}


def test_reads_only_the_start_of_a_huge_file(tmp_path: Path) -> None:
    (tmp_path / "uv.lock").write_text("a" * (MAX_BYTES + 10))
    assert {path: len(text) for path, text in naming_files(tmp_path).items()} == {"uv.lock": MAX_BYTES}


def test_limits_the_number_of_files(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 5):
        (tmp_path / f"requirements-{number}.txt").write_text("")
    assert len(naming_files(tmp_path)) == MAX_FILES


def test_replaces_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / ".npmrc").write_bytes(b"\xff\n")
    assert naming_files(tmp_path) == {".npmrc": "\ufffd\n"}


def test_reads_nothing_in_a_missing_directory(tmp_path: Path) -> None:
    assert naming_files(tmp_path / "gone") == {}


def test_lists_only_regular_files_at_the_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "go.mod").touch()
    (tmp_path / "two\nlines").touch()
    (tmp_path / "Gemfile").mkdir()
    (tmp_path / "pom.xml").symlink_to("go.mod")
    os.mkfifo(tmp_path / "package.json")
    assert names_at_top(tmp_path) == ("go.mod",)
    assert names_at_top(tmp_path / "missing") == ()
    monkeypatch.setattr(scan, "MAX_NAMES", 0)
    assert names_at_top(tmp_path) == ()
