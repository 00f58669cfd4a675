"""What VS Code's "Reopen in Container" does, run with the Dev Container CLI."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from engine import ROOT, run
from real_stacks import Project, Projects, trust
from typed_shell import TypedShell

INSTALLED = ROOT / "build" / "devcontainer-cli"


def prepare() -> None:
    INSTALLED.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(ROOT / "tests" / "e2e" / "devcontainer-cli" / name, INSTALLED)
    run("npm", "ci", "--no-audit", "--no-fund", "--prefer-offline", cwd=INSTALLED)


@pytest.fixture(scope="session")
def devcontainer() -> tuple[str | Path, ...]:
    """The real CLI at the locked version. It runs without a network, because it would check for updates."""
    return ("unshare", "--net", INSTALLED / "node_modules" / ".bin" / "devcontainer")


def test_reopen_in_container_gives_the_same_stack(projects: Projects, devcontainer: tuple[str | Path, ...]) -> None:
    project = projects.make("in an ide", "claude", "--ide", "vscode", fill=with_setup)
    add_override(project)
    ours = Path(sys.executable).parent  # initializeCommand finds agent-sandbox on PATH
    path = f"{ours}:{os.environ['PATH']}"

    up = run(*devcontainer, "up", "--workspace-folder", project.path, env={"PATH": path})
    outcome = json.loads(up.stdout.splitlines()[-1])
    assert ("success", "dev", "/workspace") == (
        outcome["outcome"],
        outcome["remoteUser"],
        outcome["remoteWorkspaceFolder"],
    )

    # The setup script ran under the policy, before `devcontainer up` reported success.
    assert (project.path / "ran").read_text() == "dev 403\n"

    inside = (*devcontainer, "exec", "--workspace-folder", project.path)
    whoami = run(*inside, "sh", "-c", "id -un; pwd; cat /proc/self/status", env={"PATH": path}).stdout
    assert whoami.startswith("dev\n/workspace\n")
    for line in ("CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"):
        assert line in whoami
    assert run(*inside, "curl", "-sS", "https://api.anthropic.com/ide", env={"PATH": path}).stdout.startswith('{"host"')
    denied = run(*inside, "curl", "-sS", "http://example.com/", env={"PATH": path}).stdout
    assert "example.com" in denied

    # plain compose and agent-sandbox see the very same containers
    assert "running" in project.compose("ps", "agent", "--format", "{{.State}}").stdout
    assert project.sandbox("exec", "id", "-un").stdout == "dev\n"
    note = "an editor started the agent container: recreating it; reload the editor's window afterwards\n"
    assert project.sandbox("up", "--quiet").stderr == note
    assert run(*inside, "id", "-un", env={"PATH": path}).stdout == "dev\n"


def with_setup(project: Path) -> None:
    """Write a setup script that records its user and the status of a request to a host that is not allowed."""
    (project / ".devcontainer").mkdir()
    (project / ".devcontainer" / "sandbox.yaml").write_text("setup: setup.sh\n")
    answer = '$(curl -so /dev/null -w "%{http_code}" http://denied.test/)'
    (project / "setup.sh").write_text(f'echo "$(id -un) {answer}" >>ran\n')


def agent_of(project: Project) -> str:
    return str(project.containers()["agent"]["Id"])


def test_devcontainer_uses_the_container_that_up_started(
    projects: Projects, devcontainer: tuple[str | Path, ...]
) -> None:
    project = projects.make("started by up", "claude")
    project.sandbox("up", "--quiet")
    agent = agent_of(project)
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    whoami = (*devcontainer, "exec", "--workspace-folder", project.path, "sh", "-c", "id -un; pwd")
    assert run(*whoami).stdout == "dev\n/workspace\n"
    up = run(*devcontainer, "up", "--workspace-folder", project.path, env=path)
    assert json.loads(up.stdout.splitlines()[-1])["containerId"] == agent
    project.compose("up", "--detach")
    assert agent_of(project) == agent


def add_override(project: Project) -> None:
    """Connect the stack that the editor starts to the stand-in for the internet."""
    config = project.path / ".devcontainer" / "devcontainer.json"
    text = config.read_text()
    assert '"compose.yaml"' in text
    config.write_text(text.replace('"compose.yaml"', f'["compose.yaml", {json.dumps(str(project.override))}]'))
    trust(project.path)


def test_two_clones_open_side_by_side_from_the_committed_files(
    projects: Projects, devcontainer: tuple[str | Path, ...]
) -> None:
    git = ("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "safe.directory=*")
    original = projects.make("app", "claude", fill=repository)
    run(*git, "add", "--all", cwd=original.path)
    run(*git, "commit", "--quiet", "--message=app", cwd=original.path)
    bundle = original.path.with_name("app.bundle")  # owned by the user who runs the tests, so git can clone it
    run(*git, "bundle", "create", bundle, "--all", cwd=original.path)
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for name in ("review", "fix"):
        clone = Project(path=original.path.with_name(name), internet=projects.internet, override=original.override)
        run(*git, "clone", "--quiet", bundle, clone.path)
        projects.made.append(clone)
        for place, files in ((clone.path, ("--file", ".devcontainer/compose.yaml")), (clone.policy.parent, ())):
            failed = run("docker", "compose", *files, "up", cwd=place, check=False)
            assert "this clone has no sandbox yet: run `agent-sandbox up` in the project" in failed.stderr
        plant(clone.path)

    review, fix = projects.made[-2:]
    # At a terminal, the first start asks for trust and then works. Without one, it prints what to do.
    editor = TypedShell(
        [*map(str, devcontainer), "up", "--workspace-folder", "."], {**os.environ, **path}, review.path, columns=200
    )
    editor.read("", until=re.compile(re.escape("Trust this? [y/N]")), seconds=60)
    assert editor.read("y\n", until=re.compile('"outcome":"([a-z]*)"'), seconds=120)[1][1] == "success"
    editor.close()
    refused = run(*devcontainer, "up", "--workspace-folder", fix.path, env=path, check=False)
    assert "hint: run agent-sandbox trust at a terminal" in refused.stderr
    failed = run("docker", "compose", "--file", ".devcontainer/compose.yaml", "up", cwd=fix.path, check=False)
    assert "this clone has no sandbox yet" in failed.stderr
    # The fingerprint does not depend on the clone.
    reviewed = json.loads(review.sandbox("trust", "--json").stdout)["fingerprint"]
    fix.sandbox("trust", "--yes", reviewed)
    run(*devcontainer, "up", "--workspace-folder", fix.path, env=path)

    for clone in (review, fix):
        assert clone.containers()["agent"]["Name"].startswith(f"/{clone.path.name}-")
        inside = "id -un; id -u; hostname; echo VALUE=x >> .devcontainer/.env || echo refused"
        said = run(*devcontainer, "exec", "--workspace-folder", clone.path, "sh", "-c", inside, env=path)
        assert said.stdout == "dev\n1000\nagent\nrefused\n"
        assert run(*git, "status", "--porcelain", cwd=clone.path).stdout == "?? .devcontainer/compose.override.yaml\n"


def repository(path: Path) -> None:
    run("git", "init", "--quiet", path)


def plant(clone: Path) -> None:
    """Write an override file, and a git exclude file that would make git list the clone's own files."""
    override = {"services": {"agent": {"hostname": "planted", "privileged": True}}}
    (clone / ".devcontainer" / "compose.override.yaml").write_text(json.dumps(override))
    (clone / ".git" / "info" / "exclude").write_text(
        "!/.devcontainer/docker-compose.yml\n!/.devcontainer/.env\n/.env\n"
    )
