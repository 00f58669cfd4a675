import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.features.secrets import login_sync as subject
from agent_sandbox.features.secrets.secret_sources import sync
from agent_sandbox.features.secrets.sources import login_host
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.problems import UserError
from agent_sandbox.project.installed import read_project
from fake_docker import FakeDocker
from fake_stack import with_containers

RECIPE = Recipe(name="claude.login", hosts=("api.anthropic.com",), source="login:claude")
PLACEHOLDERS = {"access": "sk-ant-oat01-" + "a" * 36, "refresh": "sk-ant-ort01-" + "r" * 36}
HOUR_MS = 3_600_000


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return home


def document(access: str = "sk-ant-oat01-the-real-one", *, hours: float = 2) -> dict[str, Any]:
    now = int(time.time() * 1000)
    refresh = access.replace("oat01", "ort01").replace("a" * 36, "r" * 36)
    return {"claudeAiOauth": {"accessToken": access, "refreshToken": refresh, "expiresAt": now + int(hours * HOUR_MS)}}


def sign_in(home: Path, *, hours: float = 2) -> None:
    file = home / ".claude" / ".credentials.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(document(hours=hours)))
    file.chmod(0o600)


def stack(docker: FakeDocker, inside: object = None) -> FakeDocker:
    """Have a running stack, whose agent has this credential file."""
    docker.says("secret set", script=f"cat >{docker.folder / 'told'}", out=json.dumps(PLACEHOLDERS))
    docker.says("head -c", out=json.dumps(inside) if inside else "")
    docker.says("umask 077", script=f"cat >{docker.folder / 'seeded'}")
    return with_containers(docker, proxy="healthy", agent="healthy")


def told(docker: FakeDocker) -> dict[str, Any]:
    return dict(json.loads((docker.folder / "told").read_text()))


def seeded(docker: FakeDocker) -> dict[str, Any] | None:
    file = docker.folder / "seeded"
    return dict(json.loads(file.read_text())) if file.exists() else None


def test_a_start_writes_the_credential_file_of_a_new_sandbox(project: Path, docker: FakeDocker, home: Path) -> None:
    sign_in(home)
    stack(docker)
    subject.give_login(read_project(project), RECIPE)
    found = seeded(docker)
    assert found
    assert found["claudeAiOauth"]["accessToken"] == PLACEHOLDERS["access"]


@pytest.mark.parametrize(
    ("inside", "written"),
    [
        (document(PLACEHOLDERS["access"], hours=3), False),  # as new as the token, or refreshed inside since
        (document(PLACEHOLDERS["access"], hours=1), True),
        (document("sk-ant-oat01-" + "x" * 36), False),  # its own
        ({"mcpOAuth": {"a": 1}}, True),
    ],
)
def test_a_credential_file_that_is_current_or_the_sandboxs_own_is_kept(
    project: Path, docker: FakeDocker, home: Path, inside: dict[str, Any], *, written: bool
) -> None:
    sign_in(home)
    stack(docker, inside)
    subject.give_login(read_project(project), RECIPE)
    found = seeded(docker)
    assert (found is not None) is written
    if found:
        assert found.get("mcpOAuth") == inside.get("mcpOAuth")


def test_notes_the_sandboxs_own_sign_in_and_replaces_it_only_on_request(
    project: Path, docker: FakeDocker, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sign_in(home)
    stack(docker, document("sk-ant-oat01-its-own-token"))
    subject.give_login(read_project(project), RECIPE)
    note = "note: the sandbox has its own sign-in in ~/.claude/.credentials.json; agent-sandbox login replaces it\n"
    assert (capsys.readouterr().err, seeded(docker)) == (note, None)
    subject.give_login(read_project(project), RECIPE, replace=True)
    found = seeded(docker)
    assert found
    assert found["claudeAiOauth"]["accessToken"] == PLACEHOLDERS["access"]


@pytest.mark.parametrize("how", ["none", "unknown shape", "expired"])
def test_without_a_usable_login_the_proxy_gets_the_endpoint_but_no_token(
    project: Path, docker: FakeDocker, home: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(login_host, "TRIES", 1)
    if how != "none":
        sign_in(home, hours=-1)
    if how == "unknown shape":
        (home / ".claude" / ".credentials.json").write_text('{"v9": {}}')
    stack(docker)
    with pytest.raises(UserError):
        subject.give_login(read_project(project), RECIPE)
    assert sorted(told(docker)) == ["answer", "begins", "endpoints"]
    assert seeded(docker) is None


def test_sync_passes_on_logins_and_other_secrets(
    project: Path, docker: FakeDocker, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(home)
    monkeypatch.setenv("A_KEY", "correct horse")
    stack(docker)
    recipes = recipes_of(project, os.environ)
    recipes.add(RECIPE)
    recipes.add(Recipe(name="a", hosts=("a.test",), source="env:A_KEY"))
    assert sync(read_project(project)) == (2, [])


def test_a_proxy_of_another_version_is_reported(project: Path, docker: FakeDocker, home: Path) -> None:
    sign_in(home)
    docker.says("secret set", out="")
    with pytest.raises(UserError) as rejected:
        subject.give_login(read_project(project), RECIPE)
    assert [problem.what for problem in rejected.value.problems] == ["the running proxy is of another version"]
