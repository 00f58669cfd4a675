from collections.abc import Callable
from pathlib import Path

import pytest

from agent_sandbox.engines.compose.ending import would_end
from agent_sandbox.engines.compose.engine import DOCKER
from agent_sandbox.engines.compose.plan import ComposePlanner
from agent_sandbox.engines.container import Container
from driver_worlds import project_in
from fake_docker import FakeDocker

AGENT = Container(id="c1", service="agent", image="x", state="running", health="healthy")
HEAD = "PID    PPID   COMMAND\n"
IDLE = "2580  2558  docker-init\n2593  2580  sleep\n2600  2558  healthy\n2601  2600  bash\n2700  2558  python3\n"
CLAUDE = "3000   2558   claude\n3001   3000   node\n3002   2558   claude\n3100   2558   a \x1b[2Jb\n"
TRIED = " DRY-RUN MODE -  Container app-1-proxy-1  Recreate\n DRY-RUN MODE -  Container app-1-agent-1  {}\n"
RECREATES, ANOTHER = TRIED.format("Recreate"), TRIED.format("Running")
BESIDE = " DRY-RUN MODE -  Container app-1-my-agent-1  Recreate\n"


@pytest.fixture
def ending(tmp_path: Path, docker: FakeDocker) -> Callable[..., tuple[tuple[str, ...], list[str]]]:
    """Return a function that asks what would end, and tells what was built and tried for that."""
    project = project_in(tmp_path, "app-1")

    def ask(table: str, tried: str = "", *, code: int = 0) -> tuple[tuple[str, ...], list[str]]:
        docker.rules.clear()
        docker.says("top c1", out=table, code=code).says("--dry-run create --no-build", err=tried)
        done: list[str] = []
        found = would_end(DOCKER, ComposePlanner(), project, AGENT, build=lambda: done.append("built"))
        return found, [*done, *("tried" for call in docker.calls if "--dry-run" in call)]

    return ask


def test_names_the_programs_that_were_started_from_outside(ending: Callable[..., object]) -> None:
    assert ending(HEAD + IDLE + CLAUDE, RECREATES) == (("claude", "a \\x1b[2Jb"), ["built", "tried"])


@pytest.mark.parametrize("tried", [ANOTHER, BESIDE, "unknown flag: --dry-run\n", ""])
def test_nothing_ends_if_the_container_is_not_recreated(ending: Callable[..., object], tried: str) -> None:
    assert ending(HEAD + IDLE + CLAUDE, tried) == ((), ["built", "tried"])


@pytest.mark.parametrize(("table", "code"), [(HEAD + IDLE, 0), (HEAD, 0), ("", 1)])
def test_builds_and_tries_nothing_if_nothing_runs(ending: Callable[..., object], table: str, code: int) -> None:
    assert ending(table, RECREATES, code=code) == ((), [])
