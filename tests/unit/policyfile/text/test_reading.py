import os
from pathlib import Path

import pytest

from agent_sandbox.policyfile.text.reading import MAX_BYTES, MIB, read_policy
from agent_sandbox.problems import UserError


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
