"""Copies with a real, possibly hostile process as the end in the sandbox."""

import json
import sys
from pathlib import Path

import pytest

from agent_sandbox.features.copying import transfer
from agent_sandbox.features.copying.transfer import Within, file_to_sandbox, from_sandbox, to_sandbox
from agent_sandbox.features.copying.tree import Copied, Meter, Receiver, RefusedError, opened
from agent_sandbox.host.command import Command
from table_tests import each

NOT_A_COPY = "the sandbox sent an invalid copy"
LINK = [("link", "symbolic links are not copied")]


def here(cwd: Path) -> Within:
    """Run the end of the sandbox on this machine."""
    return lambda argv: Command(argv=(sys.executable, *argv[1:]), cwd=cwd)


def saying(script: str, cwd: Path) -> Within:
    """Run a shell script as the end of the sandbox."""
    return lambda _argv: Command(argv=("sh", "-c", script), cwd=cwd)


def meter() -> Meter:
    return Meter(most_bytes=1 << 20, most_entries=100)


def fetch(within: Within, target: Path) -> Copied:
    with opened(str(target)) as place:
        return from_sandbox(within, "source", Receiver(place, "source", meter()))


def bring(within: Within, source: Path) -> Copied:
    with opened(str(source)) as place:
        return to_sandbox(within, place, "target", "source", meter())


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A directory with a file and a link."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "f").write_text("x")
    (tmp_path / "source" / "link").symlink_to("f")
    return tmp_path / "source"


def test_copies_in_both_directions(source: Path, tmp_path: Path) -> None:
    expected = Copied(files=1, size=1, skipped=LINK)
    assert fetch(here(tmp_path), tmp_path / "fetched") == expected
    assert bring(here(tmp_path), source) == expected
    assert [(tmp_path / name / "f").read_text() for name in ("fetched", "target")] == ["x", "x"]


@each(
    "script, said",
    {
        "exit 0": f"{NOT_A_COPY}: it ended too early",
        "echo; echo no such container >&2; exit 1": "in the sandbox: no such container",
        "exit 1": f"{NOT_A_COPY}: it ended too early",
        "cat /dev/zero": f"{NOT_A_COPY}: frame 0 of 0 bytes is not allowed here",
        "yes '' | head -c 9999999 >&2; exit 1": f"{NOT_A_COPY}: it ended too early",
        # A process that does not end and keeps its output open.
        "printf '\\0\\0\\0\\0\\0\\0'; exec sleep 1000": f"{NOT_A_COPY}: frame 0 of 0 bytes is not allowed here",
    }.items(),
)
def test_copying_from_the_sandbox_fails_on_an_invalid_stream(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    monkeypatch.setattr(transfer, "GRACE", 0.05)
    folder = tmp_path_factory.mktemp("from")
    with pytest.raises(RefusedError) as refused:
        fetch(saying(script, folder), folder / "new")
    assert str(refused.value) == said
    assert list(folder.iterdir()) == []


def forged(**changed: object) -> str:
    found = {"files": 1, "size": 1, "skipped": [], "more": 0, **changed}
    return f"cat >/dev/null; printf %s '{json.dumps(found)}'"


@each(
    "script, said",
    {
        "exit 0": "the sandbox did not say what it copied",
        "echo gone >&2; exit 1": "in the sandbox: gone",
        forged(error="no room"): "in the sandbox: no room",
        forged(files="many"): "the sandbox did not say what it copied",
        forged(files=-1): "the sandbox did not say what it copied",
        forged(size=10**4000): "the sandbox did not say what it copied",
        forged(more=0).replace("0", "1e999"): "the sandbox did not say what it copied",
        forged(skipped=[1]): "the sandbox did not say what it copied",
        forged(skipped=[["x" * 70_000, ""]]): "the sandbox did not say what it copied",
        "cat >/dev/null; echo []": "the sandbox did not say what it copied",
        "cat >/dev/null; printf '\\377'": "the sandbox did not say what it copied",
        "exec <&-; sleep 0.1; echo 1": "the sandbox did not say what it copied",
    }.items(),
)
def test_copying_to_the_sandbox_fails_on_an_invalid_answer(
    tmp_path_factory: pytest.TempPathFactory, script: str, said: str
) -> None:
    folder = tmp_path_factory.mktemp("to")
    (folder / "source").write_bytes(b"x" * 500_000)
    with pytest.raises(RefusedError) as refused:
        bring(saying(script, folder), folder / "source")
    assert str(refused.value) == said


def test_writes_content_to_a_file_in_the_sandbox(tmp_path: Path) -> None:
    content = bytes(200_000)
    assert file_to_sandbox(here(tmp_path), content, "new.png") == Copied(files=1, size=200_000)
    assert (tmp_path / "new.png").read_bytes() == content
