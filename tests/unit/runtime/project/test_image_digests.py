import os
from pathlib import Path

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.runtime.project.image_digests import record_digests, recorded_digests

DIGEST = f"sha256:{'1' * 64}"


def test_records_digests_for_a_project(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    assert recorded_digests(tmp_path, environ) == {}
    record_digests(tmp_path, environ, {"db:1": DIGEST})
    assert recorded_digests(tmp_path, environ) == {"db:1": DIGEST}
    assert recorded_digests(tmp_path / "state", environ) == {}
    (file,) = (tmp_path / "state" / "agent-sandbox" / "images").iterdir()
    before = file.stat()
    record_digests(tmp_path, environ, {"db:1": DIGEST})
    assert file.stat() == before


def test_a_damaged_record_counts_as_empty(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    record_digests(tmp_path, environ, {"db:1": DIGEST})
    (file,) = (tmp_path / "state" / "agent-sandbox" / "images").iterdir()
    for text in ("{", "[]", '{"digests": {"db:1": 3}}', '{"digests": {"a": "--x"}}'):
        file.write_text(text)
        assert recorded_digests(tmp_path, environ) == {}


def test_reports_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=f"^{tmp_path}/file/agent-sandbox/images: cannot be used: not a directory$"):
        record_digests(tmp_path, {**os.environ, "XDG_STATE_HOME": str(tmp_path / "file")}, {"db:1": DIGEST})
