import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_sandbox.features.secrets.commands import login as subject
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from fake_docker import FakeDocker
from fake_stack import with_containers
from run_cli import Ask
from secret_setup import policy

PROGRAM = "/opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy"
TOKEN = "sk-ant-oat01-the-real-one"
RECIPE = Recipe(name="claude.login", hosts=("api.anthropic.com",), source="login:claude")
PLACEHOLDERS = {"access": "sk-ant-oat01-" + "a" * 36, "refresh": "sk-ant-ort01-" + "r" * 36}
SENT = "the proxy sends it to api.anthropic.com, the sandbox has placeholders"


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return home


@pytest.fixture
def stack(project: Path) -> Path:
    """Write a policy that names the service; the stack is not running."""
    policy(project, "version: 1\nservices: [claude]\n")
    return project


def sign_in(home: Path, hours: float = 2.01) -> None:
    file = home / ".claude" / ".credentials.json"
    file.parent.mkdir(exist_ok=True)
    tokens: dict[str, object] = {"accessToken": TOKEN, "refreshToken": "sk-ant-ort01-the-real-one"}
    tokens |= {"expiresAt": int((time.time() + hours * 3600) * 1000), "scopes": ["x"], "subscriptionType": "max"}
    file.write_text(json.dumps({"claudeAiOauth": tokens}))
    file.chmod(0o600)


def test_adds_the_login_of_this_machine_as_a_source_for_the_next_start(
    stack: Path, home: Path, docker: FakeDocker, ask: Ask
) -> None:
    sign_in(home)
    docker.says("ps --all")
    answer = ask("login", "claude")
    assert answer.code == 0
    assert answer.err.splitlines() == [
        f"claude: the login of this machine, plan max, valid for 2 h; {SENT}",
        "agent-sandbox up passes it on",
    ]
    assert recipes_of(stack, os.environ).load() == (RECIPE,)
    assert policy(stack) == "version: 1\nservices: [{name: claude, login: claude.login}]\n"
    kept = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file() and ".claude" not in path.parts)
    assert TOKEN.encode() not in kept


def test_a_running_stack_gets_the_token_and_its_agent_the_placeholders(
    stack: Path, home: Path, docker: FakeDocker, ask: Ask
) -> None:
    assert stack.exists()
    sign_in(home)
    script = f"cat >{docker.folder / 'told'}"
    docker.says(f"{PROGRAM} secret set", script=script, out=json.dumps(PLACEHOLDERS))
    docker.says("agent_sandbox.proxy reload", out=json.dumps({"ok": True, "digest": "0" * 64}))
    docker.says("head -c", out="")
    docker.says("umask 077", script=f"cat >{docker.folder / 'seeded'}")
    with_containers(docker, proxy="healthy", agent="healthy")
    assert ask("login", "claude").code == 0
    told = (docker.folder / "told").read_text()
    assert json.loads(told)["value"] == TOKEN
    assert "ort01-the-real" not in told
    seeded = (docker.folder / "seeded").read_text()
    assert json.loads(seeded)["claudeAiOauth"]["accessToken"] == PLACEHOLDERS["access"]
    assert "the-real" not in seeded
    assert not any("the-real" in call for call in docker.calls)
    assert "secret set claude.login --host api.anthropic.com --login --folder /state/secrets" in " ".join(docker.calls)


def test_explains_how_to_sign_in_if_this_machine_has_no_login(
    stack: Path, home: Path, docker: FakeDocker, ask: Ask
) -> None:
    docker.says("ps --all")
    answer = ask("login", "claude")
    assert (answer.code, answer.err) == (
        1,
        (
            "error: claude auth login: you are not signed in on this machine, and claude is not installed\n"
            "  hint: install claude on this machine and run `claude auth login`, or sign in inside the sandbox\n"
        ),
    )
    client(docker)
    answer = ask("login", "claude")
    assert (answer.code, answer.err) == (
        1,
        (
            f"error: {home}/.claude/.credentials.json: you are not signed in on this machine\n"
            "  hint: run `claude auth login` on this machine, then agent-sandbox login; or sign in inside the sandbox\n"
        ),
    )
    assert (recipes_of(stack, os.environ).load(), policy(stack)) == ((), "version: 1\nservices: [claude]\n")


def client(docker: FakeDocker) -> None:
    program = docker.folder / "claude"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)


@pytest.mark.parametrize("signs_in", [True, False])
def test_starts_the_sign_in_of_the_local_client_at_a_terminal(
    stack: Path, home: Path, docker: FakeDocker, ask: Ask, monkeypatch: pytest.MonkeyPatch, *, signs_in: bool
) -> None:
    assert stack.exists()
    ran: list[tuple[str, ...]] = []

    def attend(argv: tuple[str, ...], **_: object) -> int:
        ran.append(argv)
        if signs_in:
            sign_in(home)
        return 0

    client(docker)
    docker.says("ps --all")
    monkeypatch.setattr(subject, "attend", attend)
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(subject, "sys", SimpleNamespace(stdin=terminal, stderr=terminal))
    answer = ask("login", "claude")
    assert ran == [(str(docker.folder / "claude"), "auth", "login")]
    assert answer.code == (0 if signs_in else 1)
    assert answer.err.startswith("you are not signed in on this machine: starting `claude auth login`\n")


def test_an_agent_without_a_login_is_rejected(stack: Path, docker: FakeDocker, ask: Ask) -> None:
    assert stack.exists()
    docker.says("ps --all")
    answer = ask("login", "aider")
    assert answer.code == 1
    assert answer.err.startswith("error: AGENT: aider has no login that can be shared\n  hint: agents with one: claude")


def test_rejects_a_service_that_already_has_an_api_key(stack: Path, home: Path, docker: FakeDocker, ask: Ask) -> None:
    sign_in(home)
    docker.says("ps --all")
    before = policy(stack, "version: 1\nservices: [{name: claude, secret: my.key}]\n") or policy(stack)
    answer = ask("login", "claude")
    file = stack / ".devcontainer" / "policy.yaml"
    assert (answer.code, answer.err) == (
        1,
        (
            f"error: {file}: the service claude has an API key in the policy (`secret: my.key`)\n"
            "  hint: remove `secret` there, then run this again: a request cannot carry both\n"
        ),
    )
    assert policy(stack) == before


def test_shells_complete_the_agents_that_have_a_login() -> None:
    assert "claude" in subject.completions()
    assert "aider" not in subject.completions()
    assert subject.completions("claude") == ()
