import errno
import fcntl
from pathlib import Path

import pytest

from agent_sandbox.features.watch.webhook_outcome import Failure, SenderLock, forget_failure, last_failure, save_failure

FAILED = Failure(why="https://a.test: it answers 500", time="2026-01-02T10:00:00Z")


def test_remembers_a_failure_until_it_is_forgotten(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    root = tmp_path / "app"
    assert last_failure(root, environ) is None
    save_failure(root, FAILED, environ)
    assert last_failure(root, environ) == FAILED
    assert last_failure(tmp_path / "other", environ) is None
    forget_failure(root, environ)
    forget_failure(root, environ)
    assert last_failure(root, environ) is None


def test_a_damaged_record_is_none(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    save_failure(tmp_path, FAILED, environ)
    (file,) = (tmp_path / "agent-sandbox" / "webhook").iterdir()
    for text in ("", "[]", '{"why": 1, "time": "x"}', '{"why": "x"}'):
        file.write_text(text)
        assert last_failure(tmp_path, environ) is None


def test_ignores_a_state_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    environ = {"XDG_STATE_HOME": str(tmp_path / "file")}
    save_failure(tmp_path, FAILED, environ)
    assert last_failure(tmp_path, environ) is None
    assert SenderLock(tmp_path, environ).take()


def test_only_one_sender_of_a_project_gets_the_lock(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    first, second = SenderLock(tmp_path, environ), SenderLock(tmp_path, environ)
    assert first.take()
    assert first.take()
    assert not second.take()
    assert SenderLock(tmp_path / "other", environ).take()
    first.release()
    first.release()
    assert second.take()


def test_every_sender_gets_the_lock_if_the_file_system_has_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_locks(_handle: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", without_locks)
    locks = [SenderLock(tmp_path, {"XDG_STATE_HOME": str(tmp_path)}) for _ in range(2)]
    assert all(lock.take() for lock in locks)
    for lock in locks:
        lock.release()
