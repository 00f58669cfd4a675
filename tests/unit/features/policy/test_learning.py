from pathlib import Path

from agent_sandbox.features.policy.learning import Recording, forget_recording, load_recording, save_recording

RECORDING = Recording(since="2026-01-02T10:00:00.000Z", allows=True)


def test_a_recording_is_remembered_for_each_project_until_it_is_forgotten(tmp_path: Path) -> None:
    environ, root = {"HOME": str(tmp_path)}, tmp_path / "app"
    assert load_recording(root, environ) is None
    forget_recording(root, environ)
    save_recording(root, RECORDING, environ)
    assert load_recording(root, environ) == RECORDING
    assert load_recording(tmp_path / "other", environ) is None
    forget_recording(root, environ)
    assert load_recording(root, environ) is None


def test_a_damaged_record_counts_as_none(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    save_recording(tmp_path, RECORDING, environ)
    (file,) = (tmp_path / ".local" / "state" / "agent-sandbox" / "learning").iterdir()
    for text in ("no json", "[]", '{"since": 3}', "\xff"):
        file.write_text(text, encoding="latin-1")
        assert load_recording(tmp_path, environ) is None
    file.write_text('{"since": "x", "allows": 1}')
    assert load_recording(tmp_path, environ) == Recording(since="x")
