from pathlib import Path

import pytest

from agent_sandbox.policyfile.text.input_manifest import Reader, Source
from agent_sandbox.policyfile.text.reading import MAX_BYTES
from agent_sandbox.problems import UserError

OF_A = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"


def test_reader_records_the_digest_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_text("a")
    monkeypatch.chdir(tmp_path)
    reader = Reader()
    assert reader.read(Path("x"), own_folder=True) == b"a"
    source = Source(path=str(tmp_path / "x"), limit=MAX_BYTES, own_folder=True, digest=OF_A)
    assert list(reader.sources) == [source]


def test_a_source_is_unchanged_until_its_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("a")
    source = Source(path=str(file), limit=MAX_BYTES, own_folder=False, digest=OF_A)
    assert source.is_unchanged
    file.write_text("b")
    assert not source.is_unchanged
    file.unlink()
    assert not source.is_unchanged
    (tmp_path / "y").write_text("a")
    file.symlink_to(tmp_path / "y")
    assert not source.is_unchanged


def test_records_both_contents_of_a_file_that_changes_between_two_reads(tmp_path: Path) -> None:
    reader = Reader()
    for text in ("a", "b"):
        (tmp_path / "x").write_text(text)
        reader.read(tmp_path / "x")
    assert sorted(source.is_unchanged for source in reader.sources) == [False, True]


def test_a_missing_file_raises_an_error_and_is_not_recorded(tmp_path: Path) -> None:
    reader = Reader()
    with pytest.raises(UserError):
        reader.read(tmp_path / "x")
    assert list(reader.sources) == []
