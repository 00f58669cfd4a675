"""A project that an earlier release rendered works with this release, unchanged.

`earlier_release/` contains what `init claude` wrote before the source tree was split into rooms. Names and addresses in
the files are derived from the project's directory, so the test uses the same directory.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import agent_sandbox, run
from real_stacks import Internet, Project, connect_to, trust

RENDERED = Path(__file__).with_name("earlier_release")
FOLDER = Path("/var/tmp/agent-sandbox-earlier-release")  # noqa: S108 - the rendered files are made for this path
FILES = {
    "docker-compose.yml": ".devcontainer/docker-compose.yml",
    "devcontainer.json": ".devcontainer/devcontainer.json",
    "policy.yaml": ".devcontainer/policy.yaml",
    "env": ".env",
}


@pytest.fixture(scope="module")
def earlier(internet: Internet) -> Iterator[Project]:
    path = FOLDER / "app"
    shutil.rmtree(FOLDER, ignore_errors=True)
    (path / ".devcontainer").mkdir(parents=True)
    run("git", "init", "--quiet", "--template=", path)
    for name in ("hooks", "branches"):
        (path / ".git" / name).mkdir()
    for name, place in FILES.items():
        shutil.copy(RENDERED / name, path / place)
    for owned in (path, *path.rglob("*")):
        os.chown(owned, 1000, 1000)
    trust(path)
    project = Project(path=path, internet=internet, override=connect_to(internet, path))
    yield project
    project.compose("down", "--volumes", "--timeout=0", check=False)
    shutil.rmtree(FOLDER)


def test_works_with_a_project_of_an_earlier_release(earlier: Project) -> None:
    assert "app" in earlier.sandbox("status").stdout
    earlier.sandbox("up")
    assert earlier.curl("https://api.anthropic.com/")[0] == 200
    assert earlier.curl("http://allowed.test/")[0] == 403
    assert "allowed.test" in earlier.sandbox("policy", "suggest").stdout

    earlier.allow("allowed.test")
    earlier.sandbox("proxy", "reload")
    assert earlier.curl("http://allowed.test/")[0] == 200

    earlier.sandbox("destroy", "--yes")
    assert run("docker", "ps", "--all", "--quiet", "--filter=name=app-40c5dc81").stdout == ""
    assert {name: (earlier.path / place).exists() for name, place in FILES.items()} == dict.fromkeys(FILES, True)


def test_init_updates_the_files_of_an_earlier_release_and_keeps_the_policy(earlier: Project) -> None:
    policy = earlier.policy.read_text()
    (earlier.path / ".env").write_text((RENDERED / "env").read_text())
    done = agent_sandbox("init", cwd=earlier.path)
    assert "updated    .devcontainer/docker-compose.yml" in done.stdout + done.stderr
    assert earlier.policy.read_text() == policy
    compose = (earlier.path / FILES["docker-compose.yml"]).read_text()
    assert "\nname: app-40c5dc81\n" in compose
    assert '\nx-agent-sandbox: {agent: claude, title: app, ide: vscode, dev: "1000:1000"}\n' in compose
