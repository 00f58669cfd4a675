import os
from pathlib import Path

import pytest

from agent_sandbox.policyfile.text.reading import MAX_BYTES, MIB, Reader, Source, read_policy
from agent_sandbox.problems import UserError

OF_A = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as error:
        read_policy(path)
    assert len(error.value.problems) == 1
    return str(error.value).removeprefix(f"{path}: ")


def test_a_regular_file_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"\xff\x00")
    assert read_policy(path) == b"\xff\x00"


def test_names_the_command_that_writes_a_missing_policy(tmp_path: Path) -> None:
    assert refusal(tmp_path / "policy.yaml") == "no such file; `agent-sandbox init AGENT` writes one"
    assert refusal(tmp_path / "hosts.txt") == "no such file"


def test_a_fifo_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert refusal(tmp_path / "fifo") == "not a regular file; a policy is a text file"


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path) == "not a regular file; a policy is a text file"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("domains: []")
    (tmp_path / "link").symlink_to("target")
    assert refusal(tmp_path / "link") == "symbolic link; replace it with the file itself"


def test_own_folder_rejects_a_folder_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "x.yaml").write_bytes(b"x")
    (tmp_path / "link").symlink_to("real")
    assert read_policy(tmp_path / "real" / "x.yaml", own_folder=True) == b"x"
    with pytest.raises(UserError) as error:
        read_policy(tmp_path / "link" / "x.yaml", own_folder=True)
    assert str(error.value) == f"{tmp_path / 'link'}: symbolic link; replace it with the directory itself"


def test_reports_why_a_file_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    assert (
        refusal(tmp_path / "policy.yaml")
        == "cannot be read: Permission denied; `agent-sandbox doctor` shows the permissions"
    )
    assert refusal(tmp_path / "hosts.txt") == "cannot be read: Permission denied"


def test_reports_permission_denied_for_a_file_in_an_unreadable_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    monkeypatch.setattr(Path, "is_symlink", refused)
    with pytest.raises(UserError) as error:
        read_policy(tmp_path / "services" / "node.yaml", own_folder=True)
    assert str(error.value) == f"{tmp_path / 'services' / 'node.yaml'}: cannot be read: Permission denied"


def test_a_file_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"#" * MAX_BYTES)
    assert len(read_policy(path)) == MAX_BYTES
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    assert refusal(path) == "longer than 4 MiB; put long host lists into a `domains_file`"
    with pytest.raises(UserError) as error:
        read_policy(path, limit=MIB)
    assert str(error.value) == f"{path}: longer than 1 MiB"


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
