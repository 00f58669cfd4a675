import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.engines.container import Container
from agent_sandbox.features.protect.mount_checks import Inside
from agent_sandbox.features.protect.snapshot import Held, leave_pending, read_held, recorded
from agent_sandbox.features.protect.unprotected_writes import SILENT, UNHIDDEN, put_off, review
from agent_sandbox.problems import UserError
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.formats.header import stamped
from agent_sandbox.stack.recorded import Owner
from fake_docker import FakeDocker
from fake_stack import with_containers
from fake_tty import Person

CONFIG = ".git/config"
AGENT = Container(id="agent0000000", service="agent", image="x", state="running")
REPLACED = f"{CONFIG}: replaced on the host machine, so the agent can write it now"


@pytest.fixture
def repository(tmp_path: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Have a repository whose settings were recorded, and git beside the fake docker."""
    docker.says("stop")
    monkeypatch.setenv("PATH", os.pathsep.join((os.environ["PATH"], os.defpath)))
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    leave_pending(tmp_path, os.environ, read_held(tmp_path, [CONFIG]), ())
    return Project(root=tmp_path, name="app-1", agents=("example",), owner=Owner(), images=(), files=())


def write(project: Project, key: str, value: str) -> None:
    subprocess.run(["git", "-C", project.root, "config", key, value], check=True)


def test_shows_ordinary_git_settings_without_stopping(
    repository: Project, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    write(repository, "remote.origin.url", "https://example.com/x.git")
    docker.says("run --rm", code=1)
    assert review(repository, [AGENT], Inside(lost=(CONFIG,))) == (CONFIG,)
    told = capsys.readouterr().err.splitlines()
    added = ['  +[remote "origin"]', "  +\turl = https://example.com/x.git"]
    assert (told[0], told[-3:]) == (REPLACED, [*added, "docker run ended with 1"])
    assert [call.split()[0] for call in docker.calls] == ["run", "exec", "stop"]


def test_asks_about_executable_settings_at_every_start(
    repository: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(repository, "core.fsmonitor", "\x1b[31m./x")
    monkeypatch.setattr(sys, "stdin", Person("\n"))
    with pytest.raises(UserError) as no:
        review(repository, [AGENT], Inside(lost=(CONFIG,)))
    what = "you did not confirm it, so the agent stays stopped"
    assert str(no.value) == f"{repository.root}: {what}; fix the file, then run agent-sandbox up"
    told = capsys.readouterr().err
    question = (
        f"This may run on your machine: {CONFIG}: core.fsmonitor. Did you, or one of your tools, write it? [y/N] "
    )
    assert (told.endswith(question), "\x1b" in told, "\\x1b[31m./x" in told) == (True, False, True)
    monkeypatch.setattr(sys, "stdin", Person("y\n"))
    assert review(repository, [], Inside()) == (CONFIG,)


def test_protects_confirmed_files_again_while_the_agent_runs(
    repository: Project, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(repository, "core.hooksPath", "x")
    monkeypatch.setattr(sys, "stdin", Person("y\n"))
    docker.says("run --rm").says("exec")
    assert review(repository, [AGENT], Inside(lost=(CONFIG,))) == ()
    told = capsys.readouterr().err
    assert told.startswith(f"{REPLACED}\n  --- a/{CONFIG}\n")
    assert "This may run on your machine: .git/config: core.hookspath. Did you" in told
    assert [call.split()[0] for call in docker.calls] == ["run", "exec"]
    then = recorded(repository.root, os.environ)
    assert (then.pending, "hooksPath = x" in then.texts[CONFIG]) == ((), True)


def test_stops_the_agent_if_the_user_declines_and_asks_again_later(
    repository: Project, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, "core.hooksPath", "x")
    for _ in range(2):
        monkeypatch.setattr(sys, "stdin", Person("\n"))
        with pytest.raises(UserError, match="you did not confirm it, so the agent stays stopped"):
            review(repository, [AGENT], Inside(lost=(CONFIG,)))
        assert recorded(repository.root, os.environ).pending == (CONFIG,)
    assert docker.calls == ["stop --time 2 agent0000000"] * 2


def test_asks_only_once_if_the_engine_cannot_protect_the_files_again(
    repository: Project, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, "core.hooksPath", "x")
    monkeypatch.setattr(sys, "stdin", Person("y\n"))
    docker.says("run --rm", code=125)
    assert review(repository, [AGENT], Inside(lost=(CONFIG,))) == (CONFIG,)
    assert [call.split()[0] for call in docker.calls] == ["run", "exec", "stop"]


def test_asks_again_if_confirmed_files_change(
    repository: Project, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(repository, "core.hooksPath", "x")
    monkeypatch.setattr(sys, "stdin", Person("y\n"))
    docker.says("run --rm", script=f"git -C {repository.root} config core.hooksPath evil", code=1)
    with pytest.raises(UserError, match="you did not confirm it, so the agent stays stopped"):
        review(repository, [AGENT], Inside(lost=(CONFIG,)))
    assert capsys.readouterr().err.count("+\thooksPath = evil") == 1


def test_stops_the_agent_first_without_a_terminal_or_with_other_changes(
    repository: Project, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, "core.hooksPath", "x")
    (repository.root / ".envrc").write_text("x")
    monkeypatch.setattr(sys, "stdin", StringIO())
    with pytest.raises(UserError):
        review(repository, [AGENT], Inside(lost=(CONFIG,)))
    leave_pending(repository.root, os.environ, replace(recorded(repository.root, os.environ), pending=()), ())
    monkeypatch.setattr(sys, "stdin", Person("y\n"))
    assert review(repository, [AGENT], Inside(lost=(".envrc", CONFIG))) == (".envrc", CONFIG)
    assert docker.calls == ["stop --time 2 agent0000000"] * 2


def test_shows_a_changed_url_without_a_question(
    repository: Project, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(repository, "remote.origin.url", "https://example.com/x.git")
    leave_pending(repository.root, os.environ, read_held(repository.root, [CONFIG]), ())
    write(repository, "remote.origin.url", "https://example.org/y.git")
    monkeypatch.setattr(sys, "stdin", StringIO())
    docker.says("run --rm").says("exec")
    assert review(repository, [AGENT], Inside(lost=(CONFIG,))) == ()
    assert capsys.readouterr().err.splitlines()[-1] == "  +\turl = https://example.org/y.git"


def test_starts_nothing_without_a_terminal(repository: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repository, "core.hooksPath", "x")
    monkeypatch.setattr(sys, "stdin", StringIO())
    with pytest.raises(UserError) as refused:
        review(repository, [], Inside(lost=(CONFIG,)))
    what = f"this may run on your machine: {CONFIG}: core.hookspath; the agent was stopped, and nothing was started"
    hint = "fix it, or run agent-sandbox up at a terminal and confirm"
    assert str(refused.value) == f"{repository.root}: {what}; {hint}"
    assert recorded(repository.root, os.environ).pending == (CONFIG,)


def test_looks_at_nothing_if_no_protection_was_lost(repository: Project, docker: FakeDocker) -> None:
    assert review(repository, [AGENT], Inside()) == ()
    assert docker.calls == []


def test_an_agent_that_keeps_its_container_from_telling_hides_nothing(
    repository: Project, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = (".devcontainer", ".env", CONFIG)
    leave_pending(repository.root, os.environ, replace(recorded(repository.root, os.environ), paths=paths), ())
    (repository.root / ".env").write_text("A=1")
    assert review(repository, [AGENT], Inside(silent=True)) == ()
    # It could write what is looked at.
    assert docker.calls == ["stop --time 2 agent0000000"]
    write(repository, "core.fsmonitor", "./x")
    assert review(repository, [AGENT], Inside()) == ()
    monkeypatch.setattr(sys, "stdin", Person("\n"))
    with pytest.raises(UserError):
        review(repository, [replace(AGENT, state="exited")], Inside(silent=True))
    assert capsys.readouterr().err.splitlines()[0] == f"{CONFIG}: {SILENT}"
    assert recorded(repository.root, os.environ).pending == (CONFIG,)


def test_what_is_lost_when_the_containers_go_is_shown_by_the_next_start(
    repository: Project, docker: FakeDocker
) -> None:
    with_containers(docker, agent="running")
    docker.says("exec", out=f"{CONFIG}\n", code=1)
    put_off(repository)
    assert recorded(repository.root, os.environ).pending == (CONFIG,)


def test_shows_unrecorded_files_completely(repository: Project, capsys: pytest.CaptureFixture[str]) -> None:
    leave_pending(repository.root, os.environ, Held(), ())
    review(repository, [], Inside(lost=(CONFIG,)))
    assert capsys.readouterr().err.splitlines()[1] == "  --- /dev/null"


def test_a_lost_mask_needs_a_new_container_but_no_answer_and_shows_no_content(
    repository: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository.root / ".devcontainer").mkdir()
    mounts = "[{target: /workspace/.env.local, source: /dev/null, read_only: true}]"
    stack = stamped(f"services: {{agent: {{volumes: {mounts}}}}}\n", comment="#")
    (repository.root / ".devcontainer" / "docker-compose.yml").write_text(stack)
    (repository.root / ".env.local").write_text("STRIPE_KEY=sk_1\n")
    assert review(repository, [AGENT], Inside(lost=(".env.local",))) == (".env.local",)
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if ".env.local" in line] == [f".env.local: {UNHIDDEN}"]
    assert "sk_1" not in "".join(said)
