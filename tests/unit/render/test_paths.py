from pathlib import Path

from agent_sandbox.render.paths import PATHS

GOLDEN = Path(__file__).parents[2] / "golden" / "claude"


def test_paths_are_the_files_that_init_writes() -> None:
    written = sorted(str(path.relative_to(GOLDEN)) for path in GOLDEN.rglob("*") if path.is_file())
    assert written == sorted(path.replace("/.", "/").lstrip(".") for path in PATHS)
