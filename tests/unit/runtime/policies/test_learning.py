from pathlib import Path

from agent_sandbox.runtime.policies.learning import forget_learning, learning_since, start_learning

SINCE = "2026-01-02T10:00:00.000Z"


def test_the_start_is_remembered_for_each_project_until_it_is_forgotten(tmp_path: Path) -> None:
    environ, root = {"HOME": str(tmp_path)}, tmp_path / "app"
    assert learning_since(root, environ) == ""
    forget_learning(root, environ)
    start_learning(root, SINCE, environ)
    assert learning_since(root, environ) == SINCE
    assert learning_since(tmp_path / "other", environ) == ""
    forget_learning(root, environ)
    assert learning_since(root, environ) == ""


def test_a_damaged_record_counts_as_none(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    start_learning(tmp_path, SINCE, environ)
    (file,) = (tmp_path / ".local" / "state" / "agent-sandbox" / "learning").iterdir()
    for text in ("no json", "[]", '{"since": 3}', "\xff"):
        file.write_text(text, encoding="latin-1")
        assert learning_since(tmp_path, environ) == ""
