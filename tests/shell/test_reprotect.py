"""reprotect.py: how it handles files and cgroups, tested without the right to mount."""

import hashlib
import importlib.util
import os
import stat
from pathlib import Path
from types import ModuleType

import pytest

from bash_harness import IMAGE


@pytest.fixture
def program() -> ModuleType:
    """Load the program as a module."""
    spec = importlib.util.spec_from_file_location("reprotect", IMAGE / "reprotect.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def renew(program: ModuleType, folder: Path, content: bytes) -> None:
    handle = os.open(folder, os.O_RDONLY)
    os.close(program.renew(handle, "config", hashlib.sha256(content).hexdigest()))
    os.close(handle)


def test_writes_through_an_open_handle_do_not_reach_the_renewed_file(program: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_bytes(b"accepted")
    file.chmod(0o640)
    with file.open("ab") as still_open:
        renew(program, tmp_path, b"accepted")
        still_open.write(b"evil")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"accepted", 0o640)
    assert [one.name for one in tmp_path.iterdir()] == ["config"]


def test_does_not_renew_a_file_with_changed_content(program: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(b"evil")
    with pytest.raises(OSError, match="the file changed meanwhile"):
        renew(program, tmp_path, b"accepted")
    assert (tmp_path / "config").read_bytes() == b"evil"


def test_respects_a_lock_of_git(program: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "config").write_bytes(b"accepted")
    (tmp_path / "config.lock").write_bytes(b"git is writing")
    with pytest.raises(FileExistsError):
        renew(program, tmp_path, b"accepted")
    assert (tmp_path / "config.lock").read_bytes() == b"git is writing"


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_refuses_a_link_or_a_pipe_in_place_of_the_file(program: ModuleType, tmp_path: Path, kind: str) -> None:
    (tmp_path / "other").write_bytes(b"accepted")
    if kind == "link":
        (tmp_path / "config").symlink_to("other")
    else:
        os.mkfifo(tmp_path / "config")
    with pytest.raises(OSError, match=r"symbolic links|the file changed meanwhile"):
        renew(program, tmp_path, b"accepted")


def test_does_not_open_a_directory_behind_a_link(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "WORKSPACE", str(tmp_path.resolve()))
    (tmp_path / "real").mkdir()
    (tmp_path / ".git").symlink_to("real")
    os.close(program.open_folder("real/config"))
    with pytest.raises(OSError, match="symbolic links"):
        program.open_folder(".git/config")


def cgroup(tmp_path: Path, text: str, **files: str) -> tuple[Path, Path]:
    """Make a cgroup with these files for an agent; return the directories of cgroups and of the agent."""
    groups, agent = tmp_path / "groups", tmp_path / "agent"
    for place in (groups / "freezer" / "x", groups / "x", agent):
        place.mkdir(parents=True)
    (agent / "cgroup").write_text(text)
    for name, content in files.items():
        path = {"freeze": "x/cgroup.freeze", "events": "x/cgroup.events", "state": "freezer/x/freezer.state"}[name]
        (groups / path).write_text(content)
    return groups, agent


def test_freezes_and_thaws_the_agent_with_cgroups_v2(program: ModuleType, tmp_path: Path) -> None:
    groups, agent = cgroup(tmp_path, "0::/x\n", freeze="0", events="populated 1\nfrozen 1\n")
    with program.frozen(program.open_freezer(groups, agent)):
        assert (groups / "x" / "cgroup.freeze").read_text() == "1"
        (groups / "x" / "cgroup.freeze").write_text("")
    assert (groups / "x" / "cgroup.freeze").read_text().strip("\0") == "0"


def test_freezes_and_thaws_the_agent_with_cgroups_v1(program: ModuleType, tmp_path: Path) -> None:
    groups, agent = cgroup(tmp_path, "7:cpu:/y\n3:freezer:/x\n0::/z\n", state="THAWED")
    with program.frozen(program.open_freezer(groups, agent)):
        assert (groups / "freezer" / "x" / "freezer.state").read_text() == "FROZEN"
    assert (groups / "freezer" / "x" / "freezer.state").read_text().endswith("THAWED")


def test_a_second_freeze_fails_and_does_not_thaw_the_agent(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "SECONDS_TO_FREEZE", 0)
    groups, agent = cgroup(tmp_path, "0::/x\n", freeze="0", events="frozen 1\n")
    with (
        program.frozen(program.open_freezer(groups, agent)),
        pytest.raises(OSError, match="another command is protecting files in the container"),
        program.frozen(program.open_freezer(groups, agent)),
    ):
        pytest.fail("frozen twice")
    assert (groups / "x" / "cgroup.freeze").read_text() == "10"


def test_fails_and_thaws_the_agent_if_it_cannot_be_frozen(
    program: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "SECONDS_TO_FREEZE", 0)
    groups, agent = cgroup(tmp_path, "0::/x\n", freeze="0", events="frozen 0\n")
    with (
        pytest.raises(OSError, match="the agent's processes could not be frozen"),
        program.frozen(program.open_freezer(groups, agent)),
    ):
        pytest.fail("not frozen")
    assert (groups / "x" / "cgroup.freeze").read_text() == "10"
    with pytest.raises(OSError, match="the agent's cgroup cannot be frozen"):
        program.open_freezer(groups, agent_of(tmp_path, "0::/none\n"))


def agent_of(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "cgroup").write_text(text)
    return folder


def test_ignores_signals_before_it_freezes_the_agent(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    ignored: list[int] = []

    def open_freezer() -> None:
        raise OSError("as far as this test goes")

    monkeypatch.setattr(program.signal, "signal", lambda number, _: ignored.append(number))
    monkeypatch.setattr(program, "open_freezer", open_freezer)
    with pytest.raises(OSError, match="as far as"):
        program.main([])
    names = {program.signal.Signals(number).name for number in ignored}
    assert names == {"SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGALRM", "SIGUSR1", "SIGUSR2"}
