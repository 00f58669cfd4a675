from pathlib import Path

from msgspec.structs import replace

from agent_sandbox.engines.compose.driver import DRIVER
from agent_sandbox.engines.container import Container
from agent_sandbox.engines.place import Helper, Place, Role, Store
from agent_sandbox.project.project import Project
from agent_sandbox.stack.recorded import Owner
from table_tests import each

ROOT = Path("/home/ann/my project")
FILE = ROOT / ".devcontainer" / "docker-compose.yml"
PROJECT = Project(root=ROOT, name="app-1", agents=("example",), owner=Owner(), images=(), files=(FILE,))
COMPOSE = (
    *("docker", "compose", "--project-name", "app-1", "--project-directory", ".devcontainer"),
    *("--env-file", "/dev/null", "--file", ".devcontainer/docker-compose.yml"),
)
AGENT = Container(id="0123", service="agent", image="x:1", state="running")
ALONE = (
    *("--rm", "--pull", "never", "--network", "none", "--read-only", "--cap-drop", "ALL"),
    *("--security-opt", "no-new-privileges", "--env", "HOME=/nonexistent"),
)
BOUNDS = ("--init", "--pids-limit", "256", "--tmpfs", "/tmp:size=64m,mode=1777")  # noqa: S108 - a container's
ROLE = Role(project=PROJECT, service="agent")
SHELF = Store(volume="app-1_log", at="/log")
WRITTEN = replace(SHELF, at="/to", writes=True)
HELPER = Helper(project=PROJECT, image="image:1")


@each(
    ("place", "options", "argv"),
    [
        (AGENT, {}, ("docker", "exec", "0123", "zsh", "-l")),
        (
            AGENT,
            {"stdin": True, "tty": True, "env": {"TERM": "x"}, "user": "1:2"},
            ("docker", "exec", "--interactive", "--tty", "--env", "TERM=x", "--user", "1:2", "0123", "zsh", "-l"),
        ),
        (ROLE, {}, (*COMPOSE, "exec", "-T", "agent", "zsh", "-l")),
        (
            ROLE,
            {"stdin": True, "tty": True, "env": {"TERM": "x", "B": "y"}, "user": "1:2"},
            (*COMPOSE, "exec", "--env", "TERM=x", "--env", "B=y", "--user", "1:2", "agent", "zsh", "-l"),
        ),
        (replace(ROLE, runs=False), {}, (*COMPOSE, "run", "--rm", "--no-deps", "-T", "agent", "zsh", "-l")),
        (
            HELPER,
            {},
            (
                *("docker", "run", *ALONE, "--user", "65534:65534", *BOUNDS, "--memory", "1g", "--memory-swap", "1g"),
                *("--entrypoint", "zsh", "image:1", "-l"),
            ),
        ),
        (
            replace(HELPER, stores=(SHELF, WRITTEN), home="/h", memory="4g", directory="/w"),
            {"stdin": True, "env": {"A": "b"}, "user": "1:2"},
            (
                *("docker", "run", "--interactive", *ALONE, "--user", "1:2", "--env", "A=b"),
                *("--env", "HOME=/h", "--tmpfs", "/h:size=512m,mode=1777"),
                *("--mount", "type=volume,source=app-1_log,target=/log,readonly,volume-nocopy"),
                "--mount",
                "type=volume,source=app-1_log,target=/to,volume-label=com.docker.compose.project=app-1",
                *(*BOUNDS, "--memory", "4g", "--memory-swap", "4g", "--workdir", "/w"),
                *("--entrypoint", "zsh", "image:1", "-l"),
            ),
        ),
    ],
)
def test_each_place_has_its_command(place: Place, options: dict[str, object], argv: tuple[str, ...]) -> None:
    made = DRIVER.spawn(place, "zsh", "-l", **options)  # type: ignore[arg-type]
    assert made.argv == argv
    assert made.cwd == (None if place is AGENT else ROOT)


def test_a_command_is_shown_as_a_line_to_type() -> None:
    assert str(DRIVER.spawn(AGENT, "echo", "a b")) == "docker exec 0123 echo 'a b'"


def test_prints_the_output_of_a_container_or_of_a_project() -> None:
    assert DRIVER.logs(AGENT, tail=3).argv == ("docker", "logs", "--tail", "3", "0123")
    assert DRIVER.logs(PROJECT).argv == (*COMPOSE, "logs", "--no-color")
    some = DRIVER.logs(PROJECT, "proxy", follow=True, tail=20)
    assert (some.argv, some.cwd) == ((*COMPOSE, "logs", "--no-color", "--follow", "--tail", "20", "proxy"), ROOT)
