import os
from pathlib import Path

import pytest

from agent_sandbox.runtime.review import baseline as module
from agent_sandbox.runtime.review.baseline import Baseline, Reviewed, load_baseline, save_baseline, text_of
from agent_sandbox.runtime.review.changes import take


def test_loads_a_baseline_as_it_was_saved(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("all:\n\techo ü\n")
    (tmp_path / os.fsdecode(b"\xff.sh")).write_bytes(b"\xff\0")
    assert load_baseline(tmp_path, os.environ) is None
    taken = take(tmp_path)
    save_baseline(tmp_path, os.environ, taken)
    assert load_baseline(tmp_path, os.environ) == taken
    assert (taken.files["Makefile"].text, taken.files["\udcff.sh"].text) == ("all:\n\techo ü\n", None)


@pytest.mark.parametrize("text", ["", "[]", '{"files": 1}', '{"files": {"a": {}}}', "{"])
def test_a_damaged_record_is_ignored(tmp_path: Path, text: str) -> None:
    save_baseline(tmp_path, os.environ, Baseline())
    (file,) = (Path(os.environ["HOME"]) / ".local/state/agent-sandbox/review").glob("*/reviewed.json")
    file.write_text(text)
    assert load_baseline(tmp_path, os.environ) is None


def test_limits_the_amount_of_stored_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 5)
    files = {name: Reviewed(digest="0", executable=False, text="abc") for name in ("a", "b")}
    save_baseline(tmp_path, os.environ, Baseline(files=files))
    found = load_baseline(tmp_path, os.environ)
    assert found is not None
    assert [one.text for one in found.files.values()] == ["abc", None]


@pytest.mark.parametrize(("data", "text"), [(b"a", "a"), (b"", ""), (b"a\0", None), (b"\xff", None)])
def test_text_is_utf8_without_nul(data: bytes, text: str | None) -> None:
    assert text_of(data) == text
    assert text_of(b"a" * (module.MOST_TEXT + 1)) is None
