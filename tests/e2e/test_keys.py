"""Keys on the host machine do not reach the sandbox: row X1 of the attack list, for keys that are not secrets."""

from pathlib import Path

import pytest

from engine import run
from real_stacks import Project, Projects

KEY = "canary-5f1d0c9e7b"
VARIABLES = (
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "AWS_SECRET_ACCESS_KEY", "COPILOT_GITHUB_TOKEN", "GH_TOKEN",
    "GITHUB_TOKEN", "NPM_TOKEN", "OPENAI_API_KEY",
)  # fmt: skip
FILES = (
    ".aws/credentials", ".claude/.credentials.json", ".config/gh/hosts.yml", ".git-credentials", ".netrc", ".npmrc",
    ".ssh/id_ed25519",
)  # fmt: skip
# Search every file of the container and the environment of every process; print where the key is.
SEARCH = f"""
cd /proc; for p in [0-9]*; do tr '\\0' '\\n' <$p/environ 2>/dev/null | grep -q {KEY} && echo environ of $p; done
grep -rl --devices=skip --exclude-dir=proc --exclude-dir=sys --exclude-dir=dev -e {KEY} / 2>/dev/null
true
"""


@pytest.fixture
def project(projects: Projects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A running stack of a user with keys in the home directory and the environment."""
    for name in VARIABLES:
        monkeypatch.setenv(name, KEY)
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(KEY)
    monkeypatch.setenv("HOME", str(tmp_path))
    made = projects.make("keys", "claude")
    made.sandbox("up")
    return made


def held_inside(project: Project, service: str) -> list[str]:
    """Search a container as root; return where the key is."""
    inside = ("exec", "-T", "--privileged", "--user", "root", service, "sh", "-c", SEARCH)
    return project.compose(*inside).stdout.splitlines()


def test_no_key_of_the_host_machine_is_in_a_container_an_image_or_a_log(project: Project) -> None:
    project.exec("curl", "-s", "https://api.anthropic.com/")
    containers = project.containers()
    said = {
        "compose config": project.compose("config").stdout,
        "docker inspect": str(containers),
        "docker history": "".join(
            run("docker", "history", "--no-trunc", one["Image"]).stdout for one in containers.values()
        ),
        "logs": project.compose("logs").stdout,
    }
    assert [where for where, text in said.items() if KEY in text] == []
    assert [(service, where) for service in containers for where in held_inside(project, service)] == []
    # Check the search itself: put one key into the project and one into a process.
    (project.path / "config.ini").write_text(KEY)
    project.exec("sh", "-c", f"KEY={KEY} sleep 60 >/dev/null 2>&1 &")
    found = held_inside(project, "agent")
    assert "/workspace/config.ini" in found
    assert any(line.startswith("environ of ") for line in found)
