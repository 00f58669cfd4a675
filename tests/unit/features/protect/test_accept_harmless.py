import hashlib
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.engines.container import Container
from agent_sandbox.features.protect import accept_harmless as module
from agent_sandbox.features.protect.accept_harmless import ACCEPTED, HIDDEN, SAME, UNTIL_START, accept_harmless
from agent_sandbox.features.protect.mount_checks import Inside
from agent_sandbox.features.protect.snapshot import leave_pending, record, recorded, settings_replaced
from agent_sandbox.features.stack.execute import require_agent
from agent_sandbox.features.stack.start_stack import _open_services
from agent_sandbox.problems import UserError
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.formats.header import stamped
from agent_sandbox.stack.containers import HEALTHY, REPROTECT
from agent_sandbox.stack.recorded import Owner
from fake_docker import FakeDocker
from fake_stack import with_containers

CONFIG = ".git/config"
AGENT = Container(id="agent0000000", service="agent", image="x", state="running")
LOST = Inside(lost=(CONFIG,))
MOUNTS = f"[{{target: /workspace/{CONFIG}, read_only: true}}, {{target: /workspace/.envrc, read_only: true}}]"


@pytest.fixture
def repository(tmp_path: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Have a repository whose settings were recorded, and git beside the fake docker."""
    assert docker.calls == []
    monkeypatch.setenv("PATH", os.pathsep.join((os.environ["PATH"], os.defpath)))
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / ".devcontainer").mkdir()
    compose = stamped(f"services: {{agent: {{volumes: {MOUNTS}}}}}\n", comment="#")
    (tmp_path / ".devcontainer" / "docker-compose.yml").write_text(compose)
    (tmp_path / ".envrc").write_text("1\n")
    record(tmp_path, os.environ)
    return Project(root=tmp_path, name="app-1", agents=("example",), owner=Owner(), images=(), files=())


def git(project: Project, *argv: str) -> None:
    subprocess.run(["git", "-C", project.root, *argv], check=True)


def digest(project: Project) -> str:
    return hashlib.sha256((project.root / CONFIG).read_bytes()).hexdigest()


def test_shows_a_harmless_change_and_protects_the_file_while_the_agent_runs(
    repository: Project, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    git(repository, "remote", "add", "origin", "https://example.com/x.git")
    assert settings_replaced(repository.root, os.environ)
    docker.says("run").says(f"exec agent0000000 {HEALTHY}")
    assert accept_harmless(repository, [AGENT], LOST) == Inside()
    told = capsys.readouterr().err.splitlines()
    assert (told[0], told[1], told[-1]) == (
        f"{CONFIG}: {ACCEPTED}",
        f"  --- a/{CONFIG}",
        "  +\tfetch = +refs/heads/*:refs/remotes/origin/*",
    )
    run, look = docker.calls
    assert run.split()[-4:] == [REPROTECT, "x", digest(repository), CONFIG]
    assert look == f"exec agent0000000 {HEALTHY}"
    assert not settings_replaced(repository.root, os.environ)
    assert "url = https://example.com/x.git" in recorded(repository.root, os.environ).texts[CONFIG]


FOLLOWS_MAIN = ("config", "branch.docs.merge", "refs/heads/main")


@pytest.mark.parametrize(("default", "left"), [("simple", Inside()), ("upstream", LOST)])
def test_accepts_a_branch_upstream_unless_a_push_would_go_there(
    repository: Project, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch, default: str, left: Inside
) -> None:
    """As `git checkout -b docs origin/main` and `git worktree add -b docs origin/main` write it."""
    mine = repository.root / "mine"
    mine.write_text(f"[push]\n\tdefault = {default}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(mine))
    git(repository, *FOLLOWS_MAIN)
    docker.says("run").says("exec")
    assert accept_harmless(repository, [AGENT], LOST) == left


def test_does_not_accept_a_branch_upstream_in_a_submodule(
    repository: Project, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own settings may say that a push goes there."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    path = ".git/modules/lib/config"
    subprocess.run(["git", "init", "--quiet", "--bare", repository.root / Path(path).parent], check=True)
    compose = repository.root / ".devcontainer" / "docker-compose.yml"
    mounts = f"[{{target: /workspace/{path}, read_only: true}}]"
    compose.write_text(stamped(f"services: {{agent: {{volumes: {mounts}}}}}\n", comment="#"))
    record(repository.root, os.environ)
    subprocess.run(["git", "--git-dir", repository.root / Path(path).parent, *FOLLOWS_MAIN], check=True)
    lost = Inside(lost=(path,))
    assert accept_harmless(repository, [AGENT], lost) == lost
    assert docker.calls == []


def test_a_file_with_the_same_content_is_protected_again(
    repository: Project, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    file = repository.root / CONFIG
    (repository.root / "new").write_bytes(file.read_bytes())
    (repository.root / "new").rename(file)
    docker.says("run").says("exec")
    assert accept_harmless(repository, [AGENT], LOST) == Inside()
    assert capsys.readouterr().err == f"{CONFIG}: {SAME}\n"


@pytest.mark.parametrize("command", ["config core.fsmonitor ./x", "config alias.st !x", "remote add x ./x"])
def test_does_not_accept_a_change_that_could_run_a_program(
    repository: Project, docker: FakeDocker, command: str
) -> None:
    git(repository, *command.split())
    assert accept_harmless(repository, [AGENT], LOST) == LOST
    assert docker.calls == []


def test_accepts_nothing_while_another_mount_is_lost(repository: Project, docker: FakeDocker) -> None:
    git(repository, "config", "user.name", "Ann")
    lost = Inside(lost=(".envrc", CONFIG))
    assert accept_harmless(repository, [AGENT], lost) == lost
    assert docker.calls == []


def test_does_not_accept_a_change_while_the_file_awaits_confirmation(repository: Project, docker: FakeDocker) -> None:
    leave_pending(repository.root, os.environ, recorded(repository.root, os.environ), (CONFIG,))
    git(repository, "config", "user.name", "Ann")
    assert accept_harmless(repository, [AGENT], LOST) == LOST
    assert docker.calls == []


def test_does_not_accept_a_file_with_a_second_hard_link(repository: Project, docker: FakeDocker) -> None:
    git(repository, "config", "user.name", "Ann")
    (repository.root / "second").hardlink_to(repository.root / CONFIG)
    assert accept_harmless(repository, [AGENT], LOST) == LOST
    assert docker.calls == []


def test_accepts_nothing_while_the_container_is_not_running(repository: Project, docker: FakeDocker) -> None:
    git(repository, "config", "user.name", "Ann")
    assert accept_harmless(repository, [replace(AGENT, state="exited")], LOST) == LOST
    assert docker.calls == []


def test_checks_the_content_that_is_protected_even_if_git_reads_other_content(
    repository: Project, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that puts dangerous settings there, but harmless ones while git reads the file."""
    git(repository, "config", "user.name", "Ann")
    real = repository.root / "real"
    program = (
        f'#!/bin/sh\ncase "$*" in *{CONFIG}*) exec {{git}} config --file {shlex.quote(str(real))} --list -z;; esac\n'
    )
    real.write_bytes((repository.root / CONFIG).read_bytes())
    git(repository, "config", "core.fsmonitor", "./x")
    found = subprocess.run(["sh", "-c", "command -v git"], check=True, capture_output=True, text=True).stdout.strip()
    (docker.folder / "git").write_text(f'{program.format(git=found)}exec {found} "$@"\n')
    (docker.folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join((str(docker.folder), os.defpath)))
    assert accept_harmless(repository, [AGENT], LOST) == LOST
    assert docker.calls == []


def test_another_command_can_protect_the_file_first(
    repository: Project, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    git(repository, "config", "user.name", "Ann")
    docker.says("run", code=1).says("exec")
    assert accept_harmless(repository, [AGENT], LOST) == Inside()
    assert capsys.readouterr().err.startswith(f"{CONFIG}: {ACCEPTED}\n")
    assert settings_replaced(repository.root, os.environ)


@pytest.mark.parametrize(("run", "said"), [(1, "not \\x1b[2Jfrozen\n"), (0, "")])
def test_a_mount_that_cannot_be_restored_stays_lost_and_the_error_is_printed(
    repository: Project, docker: FakeDocker, capsys: pytest.CaptureFixture[str], run: int, said: str
) -> None:
    git(repository, "config", "user.name", "Ann")
    docker.says("run", err="not \x1b[2Jfrozen\n", code=run).says("exec", out=f"{CONFIG}\n", code=1)
    assert accept_harmless(repository, [AGENT], LOST) == LOST
    assert capsys.readouterr().err == said
    assert settings_replaced(repository.root, os.environ)


def test_rechecks_a_healthy_agent_after_git_settings_were_replaced(repository: Project, docker: FakeDocker) -> None:
    with_containers(docker, agent="healthy")
    require_agent(repository)
    assert not [call for call in docker.calls if HEALTHY in call]
    git(repository, "config", "core.fsmonitor", "./x")
    docker.says("exec", out=f"{CONFIG}\n", code=1)
    with pytest.raises(UserError) as refused:
        require_agent(repository)
    hint = "check it, then run agent-sandbox up: it recreates the agent container and protects the file again"
    assert str(refused.value) == f"{CONFIG}: replaced on the host machine, so the agent can write it now; {hint}"


def test_repeats_the_health_check_if_the_agent_does_not_answer(repository: Project, docker: FakeDocker) -> None:
    with_containers(docker, agent="healthy")
    docker.says("exec", code=126)
    git(repository, "config", "user.name", "Ann")
    for _ in range(2):
        require_agent(repository)
    assert len([call for call in docker.calls if HEALTHY in call]) == 2


def test_distinguishes_the_projects_own_repository_from_submodules() -> None:
    own = {CONFIG, "/home/me/main/.git/config", "/home/me/x.git/config"}
    submodules = {".git/modules/lib/config", "vendor/.git/config", "/home/me/main/.git/worktrees/a/modules/lib/config"}
    assert {path for path in own | submodules if module._is_own(path)} == own


def with_dotenv(project: Project, *masks: str) -> None:
    """Have a `.env` and a masked file in the stack, recorded."""
    source = dict.fromkeys(masks, ", source: /dev/null")
    mounts = ", ".join(
        f"{{target: /workspace/{path}{source.get(path, '')}, read_only: true}}" for path in {".env", *masks}
    )
    stack = stamped(f"services: {{agent: {{volumes: [{mounts}]}}}}\n", comment="#")
    (project.root / ".devcontainer" / "docker-compose.yml").write_text(stack)
    for path in (".env", *masks):
        (project.root / path).write_text("STRIPE_KEY=sk_1\n")
    record(project.root, os.environ)


def replace_file(project: Project, path: str, text: str) -> str:
    (project.root / "new").write_text(text)
    (project.root / "new").rename(project.root / path)
    return hashlib.sha256(text.encode()).hexdigest()


def test_an_edited_dotenv_is_protected_again_and_no_value_is_shown(
    repository: Project, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    with_dotenv(repository)
    found = replace_file(repository, ".env", "STRIPE_KEY=sk_2\nNEW_TOKEN=sk_3\n")
    assert settings_replaced(repository.root, os.environ)
    docker.says("run").says("exec")
    assert accept_harmless(repository, [AGENT], Inside(lost=(".env",))) == Inside()
    assert docker.calls[0].endswith(f" {REPROTECT} x {found} .env")
    told = capsys.readouterr().err
    assert told.startswith(f".env: {ACCEPTED}\n")
    assert ("+NEW_TOKEN=(hidden, changed)" in told, "sk_" in told) == (True, False)
    assert settings_replaced(repository.root, os.environ) == {}
    replace_file(repository, ".env", "STRIPE_KEY=sk_4\nNEW_TOKEN=sk_3\n")
    assert accept_harmless(repository, [AGENT], Inside(lost=(".env",))) == Inside()
    told = capsys.readouterr().err
    assert "  -STRIPE_KEY=(hidden)\n  +STRIPE_KEY=(hidden, changed)\n" in told


@pytest.mark.parametrize("path", [".env", ".env.local"])
def test_a_masked_file_that_was_edited_is_hidden_again(
    repository: Project, docker: FakeDocker, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    with_dotenv(repository, path)
    found = replace_file(repository, path, "STRIPE_KEY=sk_2\n")
    docker.says("run").says("exec")
    assert accept_harmless(repository, [AGENT], Inside(lost=(path,))) == Inside()
    assert docker.calls[0].endswith(f" {REPROTECT} x hide:{found} {path}")
    told = capsys.readouterr().err
    assert (told.splitlines()[0], "sk_" in told) == (f"{path}: {HIDDEN}", False)
    assert settings_replaced(repository.root, os.environ) == {}
    assert ".env.local" not in recorded(repository.root, os.environ).texts


@pytest.mark.parametrize("path", [".env", ".env.local"])
def test_a_masked_file_that_a_start_hid_again_is_named_once(
    repository: Project, docker: FakeDocker, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    with_dotenv(repository, path)
    with_containers(docker, agent="healthy")
    docker.says("exec")
    (repository.root / path).write_text("STRIPE_KEY=sk_2\n")  # hidden all the time
    require_agent(repository)
    assert capsys.readouterr().err == ""
    replace_file(repository, path, "STRIPE_KEY=sk_3\n")
    for _ in range(2):
        require_agent(repository)
    assert capsys.readouterr().err == f"{path}: {UNTIL_START}\n"
    assert len([call for call in docker.calls if HEALTHY in call]) == 2


@pytest.mark.parametrize(("state", "says"), [("running", True), ("exited", False)])
def test_a_start_names_the_masked_file_unless_no_agent_could_read_it(
    repository: Project, docker: FakeDocker, capsys: pytest.CaptureFixture[str], state: str, *, says: bool
) -> None:
    with_dotenv(repository, ".env.local")
    docker.says("exec")
    replace_file(repository, ".env.local", "STRIPE_KEY=sk_3\n")
    assert _open_services(repository, [replace(AGENT, state=state)]) == ()
    assert capsys.readouterr().err == f".env.local: {UNTIL_START}\n" * says


def test_a_masked_dotenv_with_other_lines_for_compose_is_not_accepted(repository: Project, docker: FakeDocker) -> None:
    with_dotenv(repository, ".env")
    replace_file(repository, ".env", "STRIPE_KEY=sk_1\nCOMPOSE_FILE=evil.yml\n")
    lost = Inside(lost=(".env",))
    assert accept_harmless(repository, [AGENT], lost) == lost
    assert docker.calls == []
