"""A project that has its own Compose stack and its own `.env` besides the sandbox."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import agent_sandbox, proxy_image, run

STACK = ".devcontainer/docker-compose.yml"
OURS = ["agent", "firewall", "proxy"]
USERS = b"# keys\r\nDB='x y'\nWEB_COMMAND=infinity"


def own_files(path: Path, *, env: bytes | None) -> dict[str, bytes]:
    """Write the user's files, and return them."""
    path.mkdir(parents=True)
    web = {"image": proxy_image(), "network_mode": "none", "entrypoint": ["sleep", "${WEB_COMMAND:-infinity}"]}
    files = {"compose.yaml": json.dumps({"services": {"web": web}}).encode()} | ({".env": env} if env else {})
    for name, data in files.items():
        (path / name).write_bytes(data)
    run("chown", "-R", "1000:1000", path)
    return files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("own")
    for parent in (folder, folder.parent):
        parent.chmod(0o755)
    yield folder
    for path in folder.iterdir():
        agent_sandbox("destroy", "--yes", cwd=path, check=False)
        run("docker", "compose", "down", "--timeout=0", cwd=path, check=False)


def compose(path: Path, *argv: str) -> str:
    return run("docker", "compose", *argv, cwd=path).stdout


def agent_of(path: Path) -> str:
    return compose(path, "--file", STACK, "ps", "--quiet", "agent")


def test_both_stacks_run_side_by_side_and_the_users_files_stay_as_they_are(folder: Path) -> None:
    path = folder / "my shop"
    before = own_files(path, env=USERS)
    agent_sandbox("init", "claude", cwd=path)
    agent_sandbox("up", "--quiet", cwd=path)
    assert compose(path, "config", "--services").split() == ["web"]
    compose(path, "up", "--detach", "--remove-orphans")
    compose(path, "--file", STACK, "up", "--detach")
    agent = agent_of(path)
    assert sorted(compose(path, "--file", STACK, "ps", "--services").split()) == OURS
    compose(path, "down", "--timeout=0", "--remove-orphans")
    assert agent_of(path) == agent
    refused = agent_sandbox("exec", "sh", "-c", "echo COMPOSE_FILE=evil.yml >> .env", cwd=path, check=False)
    assert refused.returncode != 0
    assert agent_sandbox("exec", "id", "-un", cwd=path).stdout == "dev\n"
    assert {name: (path / name).read_bytes() for name in before} == before


def test_an_env_file_that_the_agent_writes_does_not_change_the_stack(folder: Path) -> None:
    path = folder / "no-env"
    own_files(path, env=None)
    agent_sandbox("init", "claude", cwd=path)
    assert not (path / ".env").exists()
    agent_sandbox("up", "--quiet", cwd=path)
    meant = compose(path, "--file", STACK, "config")
    lines = f"COMPOSE_FILE={STACK}:evil.yml\\nCOMPOSE_PROJECT_NAME=other\\nCOMPOSE_PROFILES=x\\nPATH=/workspace\\n"
    evil = "services: {agent: {privileged: true, volumes: [/:/host]}}"
    agent_sandbox("exec", "sh", "-c", f"printf '{lines}' > .env; echo '{evil}' > evil.yml", cwd=path)
    assert (path / ".env").read_text().startswith(f"COMPOSE_FILE={STACK}:evil.yml\n")
    assert compose(path, "--file", STACK, "config") == meant
    agent_sandbox("up", "--quiet", cwd=path)
    privileged = run("docker", "inspect", "--format", "{{.HostConfig.Privileged}}", agent_of(path).strip())
    assert privileged.stdout == "false\n"
    assert agent_sandbox("exec", "test", "-e", "/host", cwd=path, check=False).returncode == 1
    assert "open    .env: not protected: agent-sandbox doctor" in agent_sandbox("status", cwd=path).stdout
    refused = agent_sandbox("build", "--editor", "--path", str(path), check=False)
    what = (
        "COMPOSE_PROJECT_NAME is other: an editor starts the stack under this name,"
        " where agent-sandbox does not find it"
    )
    assert (refused.returncode, refused.stderr.splitlines()[0]) == (1, f"error: {path}: {what}")
    # The next `init` protects the file, and still does not use it.
    agent_sandbox("init", cwd=path)
    agent_sandbox("up", "--quiet", cwd=path)
    assert sorted(compose(path, "--file", STACK, "ps", "--services").split()) == OURS
    assert agent_sandbox("exec", "sh", "-c", "echo x >> .env", cwd=path, check=False).returncode != 0
