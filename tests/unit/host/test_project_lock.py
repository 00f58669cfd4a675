import fcntl
import itertools
import os
import threading
from pathlib import Path

import pytest

from agent_sandbox.host.files import project_lock
from agent_sandbox.host.user_dirs import state_name
from agent_sandbox.problems import UserError


def test_a_second_command_waits_until_the_first_has_ended(tmp_path: Path) -> None:
    state, order = tmp_path / "state", list[str]()
    waits = threading.Event()

    def clock() -> float:
        waits.set()
        return 0.0

    def second() -> None:
        with project_lock(tmp_path, state, clock=clock):
            order.append("second")

    with project_lock(tmp_path, state), project_lock(tmp_path / "other", state):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(30)
        order.append("first")
    thread.join(30)
    assert order == ["first", "second"]


def test_a_lock_that_stays_taken_is_named_and_is_free_after_an_exception(tmp_path: Path) -> None:
    state = tmp_path / "state"
    place = tmp_path / "state" / "locks" / f"{state_name(tmp_path)}.lock"
    ticks = itertools.count(0.0, 61.0)
    first, second = project_lock(tmp_path, state), project_lock(tmp_path, state, clock=lambda: next(ticks))
    with pytest.raises(UserError) as raised, first, second:
        pytest.fail("two commands hold it")
    assert str(raised.value) == (
        f"{tmp_path}: another command is writing this project's files; end it: fuser {place} shows it"
    )
    with project_lock(tmp_path, state):
        assert place.stat().st_mode == 0o100600


def test_a_lock_made_under_sudo_belongs_to_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []
    (tmp_path / "locks").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda _, *owner: given.append(owner))
    with project_lock(tmp_path, tmp_path):
        found = (tmp_path / "locks").stat()
        assert given == [(found.st_uid, found.st_gid)]


def test_an_agent_can_hold_no_lock_and_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (tmp_path / "app" / ".devcontainer").mkdir(parents=True)
    with (tmp_path / "app" / ".devcontainer" / "policy.yaml").open("w") as policy:
        fcntl.flock(policy, fcntl.LOCK_EX)
        with project_lock(tmp_path / "app", state):
            pass
    assert [file.name for file in (tmp_path / "app").rglob("*")] == [".devcontainer", "policy.yaml"]
    place = tmp_path / "state" / "locks" / f"{state_name(tmp_path)}.lock"
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError) as raised, project_lock(tmp_path, state):
        pass
    assert str(raised.value).startswith(f"{place}: cannot be used: too many levels of symbolic links;")
    assert not (tmp_path / "elsewhere").exists()
