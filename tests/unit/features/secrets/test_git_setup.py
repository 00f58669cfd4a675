"""`agent-sandbox secret setup github`: repositories from git, the token, and the entry in the policy."""

import io
import json
import os
import shutil
import sys
from pathlib import Path
from typing import override

import pytest

from agent_sandbox.features.secrets.sources import github_app
from agent_sandbox.features.secrets.sources.github_app import FORM
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.project.render.paths import PROJECT_FILE
from fake_docker import FakeDocker
from fake_stack import trust, with_containers
from github_app import APP, LIFE, github
from repositories import repository
from run_cli import Ask
from secret_setup import policy

VALUE = "ghp_correcthorsebattery"
PROGRAM = "/opt/agent-sandbox/venv/bin/python -P -m agent_sandbox.proxy"
CONFIG = """\
[remote "origin"]
	url = git@github.com:Me/app.git
[remote "upstream"]
	url = https://github.com/them/app
[remote "other"]
	url = https://git.example.com/me/app
[submodule "lib"]
	url = https://github.com/them/lib.git
"""
SENT = "the proxy sends github.token to github.com and api.github.com, only for the repositories that the policy names"
AUTH = "auth: {secret: github.token}"
SHIM = "auth: {secret: github.token, client_shim: {kind: env}}"


@pytest.fixture
def stopped(project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    """Have a repository, a proxy that keeps what it is told and reloads its policy, and a token on our stdin."""
    (repository(project) / "config").write_text(CONFIG)
    (docker.folder / "git").symlink_to(str(shutil.which("git", path=os.defpath)))
    hold(docker)
    docker.says(f"{PROGRAM} secret list", script=f"cat {docker.folder / 'held'}")
    docker.says(f"{PROGRAM} secret set", script=f"cat >{docker.folder / 'told'}")
    docker.says("agent_sandbox.proxy reload", out=json.dumps({"ok": True, "digest": "0" * 64}))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{VALUE}\n".encode())))
    return docker


@pytest.fixture
def running(stopped: FakeDocker) -> FakeDocker:
    return with_containers(stopped, proxy="healthy")


def hold(docker: FakeDocker, *names: str) -> None:
    """Have the proxy hold secrets for github.com."""
    rows = [{"name": name, "hosts": ["github.com"]} for name in names]
    (docker.folder / "held").write_text(json.dumps(rows))


def told(docker: FakeDocker) -> list[str]:
    return [call.partition(" secret ")[2] for call in docker.calls if " secret set" in call]


def test_one_command_lets_the_sandbox_push_to_the_projects_repository(
    running: FakeDocker, ask: Ask, project: Path
) -> None:
    policy(project, "version: 1\n# what it needs\nservices:\n  - claude  # the agent\n")
    answer = ask("secret", "setup", "github")
    assert answer.code == 0, answer.err
    assert policy(project) == (
        "version: 1\n# what it needs\nservices:\n  - claude  # the agent\n"
        "  - name: github\n    repos: [Me/app, {name: them/app, access: read}, {name: them/lib, access: read}]\n"
        f"    git: {{access: readwrite, {AUTH}}}\n    web: {{access: read}}\n"
        f"    api: {{access: readwrite, {SHIM}}}\n"
    )
    assert told(running) == ["set github.token --host github.com --host api.github.com --folder /state/secrets"]
    assert (running.folder / "told").read_text() == VALUE
    line = ".devcontainer/policy.yaml:5: the service github has new `repos`, `git`, `web`, `api`\n"
    assert answer.out == line
    assert answer.err.splitlines() == [
        "read and write: Me/app (remote origin)",
        "read only: them/app (remote upstream)",
        "read only: them/lib (submodule lib)",
        "policy loaded, digest 000000000000",
        SENT,
    ]


class Typed(io.StringIO):
    """A terminal on which this is typed."""

    @override
    def isatty(self) -> bool:
        return True


def test_allows_reading_repositories_that_are_mounted_read_only(running: FakeDocker, ask: Ask, project: Path) -> None:
    config = '[remote "origin"]\n\turl = https://github.com/{0}\n[remote "x"]\n\turl = https://github.com/x/x\n'
    for name in ("shared", "written"):
        folder = project.parent / f"{project.name}-{name}"
        (repository(folder) / "config").write_text(config.format(f"them/{name}"))
    mounts = f"[{{path: ../{project.name}-shared}}, {{path: ../{project.name}-written, read_only: false}}]"
    (project / PROJECT_FILE).write_text(f"version: 1\nmounts: {mounts}\n")
    trust(project)
    answer = ask("secret", "setup", "github")
    assert answer.code == 0, answer.err
    assert [line for line in answer.err.splitlines() if " only: " in line or " write: " in line] == [
        "read and write: Me/app (remote origin)",
        "read only: them/app (remote upstream)",
        "read only: them/lib (submodule lib)",
        f"read only: them/shared (mount ../{project.name}-shared)",
    ]
    assert "{name: them/shared, access: read}" in policy(project)
    assert told(running) == ["set github.token --host github.com --host api.github.com --folder /state/secrets"]


@pytest.mark.usefixtures("running")
def test_ignores_repositories_of_mounts_that_are_not_trusted_yet(ask: Ask, project: Path) -> None:
    """A project file can come with a commit, and without a terminal nobody is asked about the repositories."""
    folder = project.parent / f"{project.name}-other"
    (repository(folder) / "config").write_text('[remote "origin"]\n\turl = https://github.com/me/private\n')
    trust(project)
    (project / PROJECT_FILE).write_text(f"version: 1\nmounts: [{{path: ../{folder.name}}}]\n")
    answer = ask("secret", "setup", "github")
    assert "read only: them/lib (submodule lib)" in answer.err
    assert "me/private" not in answer.err + policy(project)


@pytest.mark.parametrize("answer", ["y\n", "\n", ""])
def test_asks_at_a_terminal_before_it_allows_the_repositories_of_the_git_settings(
    running: FakeDocker, ask: Ask, project: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    code = 0 if answer.startswith("y") else 1
    hold(running, "github.token")
    git = f"git: {{access: read, {AUTH}}}"
    before = policy(project, f"version: 1\nservices: [{{name: github, repos: [a/b], {git}}}]\n")
    monkeypatch.setattr(sys, "stdin", Typed(answer))
    got = ask("secret", "setup", "github")
    assert (got.code, policy(project) == before) == (code, bool(code)), got.err
    assert "read and write: Me/app (remote origin)\n" in got.err.partition("Allow this? [y/N] ")[0]
    assert ask("secret", "setup", "github", "--repo", "c/d").code == 0


def test_a_repository_is_added_to_the_entry_without_asking_for_the_token_again(
    running: FakeDocker, ask: Ask, project: Path
) -> None:
    hold(running, "own.token")
    git = "git: {access: readwrite, auth: {secret: own.token}}"
    policy(project, f"version: 1\nservices:\n  - name: github\n    repos:\n      - a/b  # mine\n    {git}\n")
    answer = ask("secret", "setup", "gh", "--repo", "c/d", "--read", "https://github.com/e/f.git")
    assert answer.code == 0, answer.err
    assert policy(project) == (
        "version: 1\nservices:\n  - name: github\n    repos:\n      - a/b  # mine\n      - c/d\n"
        f"      - {{name: e/f, access: read}}\n    {git}\n"
    )
    assert told(running) == []
    assert "own.token is set already; agent-sandbox secret set replaces it" in answer.err.splitlines()


def test_a_token_stays_bound_to_the_hosts_of_all_parts(running: FakeDocker, ask: Ask, project: Path) -> None:
    parts = f"git: {{access: readwrite, {AUTH}}}, api: {{access: read, {SHIM}}}"
    policy(project, f"version: 1\nservices: [{{name: github, repos: [a/b], {parts}}}]\n")
    assert ask("secret", "setup", "github", "--repo", "c/d").code == 0
    assert told(running) == ["set github.token --host github.com --host api.github.com --folder /state/secrets"]


def test_read_only_repositories_stay_read_only_when_another_becomes_writable(
    running: FakeDocker, ask: Ask, project: Path
) -> None:
    policy(project, "version: 1\nservices: [{name: github, repos: [a/b, C/d], git: {access: read}}]\n")
    assert ask("secret", "setup", "github", "--repo", "c/D").code == 0
    assert policy(project) == (
        "version: 1\nservices: [{name: github, repos: [{name: a/b, access: read}, c/D], "
        f"git: {{access: readwrite, {AUTH}}}}}]\n"
    )
    assert told(running) == ["set github.token --host github.com --folder /state/secrets"]


def test_an_entry_for_all_repositories_is_limited_with_a_warning(running: FakeDocker, ask: Ask, project: Path) -> None:
    policy(project, "version: 1\nservices:\n  - github\n")
    answer = ask("secret", "setup", "github", "--read", "a/b")
    assert policy(project) == (
        f"version: 1\nservices:\n  - name: github\n    repos: [a/b]\n    git: {{access: read, {AUTH}}}\n"
        f"    web: {{access: read}}\n    api: {{access: read, {SHIM}}}\n"
    )
    what = "careful: the policy allows all repositories of github.com now, and will allow only those that it names"
    assert what in answer.err.splitlines()
    assert told(running)


def test_git_read_only_denies_every_push(running: FakeDocker, ask: Ask, project: Path) -> None:
    policy(project, "version: 1\ndomains: [git.test]\n")
    answer = ask("secret", "setup", "github", "--git-read-only")
    assert answer.err.splitlines()[0] == "read only: Me/app (remote origin)"
    text = policy(project)
    assert "repos: [Me/app, them/app, them/lib]\n    git: {access: read, " in text
    assert text.endswith("deny:\n  - POST https://*/**/git-receive-pack\n  - POST http://*/**/git-receive-pack\n")
    explained = ask("policy", "explain", "https://git.test/o/r.git/info/refs?service=git-receive-pack").out
    assert "rule      policy.yaml:10 (project) denies POST https://*/**/git-receive-pack\n" in explained
    assert told(running)


def test_setup_with_a_source_works_before_the_first_up(
    stopped: FakeDocker, ask: Ask, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped.says("ps --all")
    monkeypatch.setenv("TOKEN", VALUE)
    policy(project, "version: 1\nservices: []\n")
    answer = ask("secret", "setup", "github", "--repo", "a/b", "--from", "env:TOKEN")
    assert answer.err.splitlines() == [
        "read and write: a/b (--repo)",
        "github.token will be fetched from its source by agent-sandbox up",
        SENT,
    ]
    recipe = Recipe(name="github.token", hosts=("github.com", "api.github.com"), source="env:TOKEN")
    assert recipes_of(project, os.environ).load() == (recipe,)
    before = policy(project)
    again = ask("secret", "setup", "github", "--repo", "a/b")
    assert (again.code, policy(project)) == (0, before)


def test_rejects_a_secret_that_is_bound_to_another_host(
    running: FakeDocker, ask: Ask, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", VALUE)
    recipe = Recipe(name="cloud.key", hosts=("cloud.example.com",), source="env:KEY")
    recipes_of(project, os.environ).add(recipe)
    git = "git: {access: readwrite, auth: {secret: cloud.key}}"
    policy(project, f"version: 1\nservices: [{{name: github, repos: [a/b], {git}}}]\n")
    answer = ask("secret", "setup", "github", "--repo", "a/b")
    assert (answer.code, answer.err) == (
        1,
        (
            "read and write: a/b (--repo)\n"
            "error: cloud.key: the policy gives this secret to git, but it is for cloud.example.com\n"
            "  hint: name another one in the policy, or say with --from where its value is from\n"
        ),
    )
    assert (told(running), recipes_of(project, os.environ).load()) == ([], (recipe,))


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (
            ("github", "--repo", "o", "--read", "git@gitlab.com:o/r.git"),
            (
                "error: --repo: not a repository of this server: 'o'\n  hint: write `owner/name`\n"
                "error: --read: not a repository of this server: 'git@gitlab.com:o/r.git'\n  hint: write `owner/name`\n"
            ),
        ),
        (
            ("openai", "--repo", "o/r"),
            "error: SERVICE: openai is not a git server\n  hint: git servers: bitbucket, codeberg, github, gitlab\n",
        ),
    ],
)
def test_a_setup_that_fails_changes_nothing(
    running: FakeDocker, ask: Ask, project: Path, argv: tuple[str, ...], error: str
) -> None:
    before = policy(project)
    answer = ask("secret", "setup", *argv)
    assert (answer.code, answer.err, policy(project), told(running)) == (1, error, before, [])


@pytest.mark.parametrize(
    ("service", "remote", "repository", "hosts"),
    [
        ("gitlab", "git@gitlab.com:g/s/app.git", "g/s/app", "gitlab.com"),
        ("bitbucket", "https://me@bitbucket.org/w/app.git", "w/app", "bitbucket.org --host api.bitbucket.org"),
        ("forgejo", "ssh://git@codeberg.org/o/app", "o/app", "codeberg.org"),
    ],
)
def test_sets_up_other_git_servers(  # noqa: PLR0917 - the rows
    running: FakeDocker, ask: Ask, project: Path, service: str, remote: str, repository: str, hosts: str
) -> None:
    (project / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {remote}\n')
    answer = ask("secret", "setup", service)
    assert (answer.code, answer.err.splitlines()[0]) == (0, f"read and write: {repository} (remote origin)")
    assert f"repos: [{repository}]" in policy(project)
    (call,) = told(running)
    assert call.endswith(f" --host {hosts} --folder /state/secrets")


def test_requires_a_repository_name_without_a_remote_on_the_server(
    running: FakeDocker, ask: Ask, project: Path
) -> None:
    (project / ".git" / "config").write_text('[remote "origin"]\n\turl = git@work:o/r.git\n')
    answer = ask("secret", "setup", "github")
    what = "error: git: no remote of this project leads to a repository on github.com\n"
    assert (answer.code, answer.err) == (1, f"{what}  hint: name one: --repo owner/name\n")
    assert told(running) == []


def test_limits_the_token_of_a_github_app_to_the_chosen_repositories(
    running: FakeDocker,
    ask: Ask,
    project: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (running.folder / "openssl").symlink_to(str(shutil.which("openssl", path=os.defpath)))
    with github() as server:
        monkeypatch.setattr(github_app, "API", server.address)
        key = server.key_file(tmp_path_factory.mktemp("keys"))
        policy(project, "version: 1\nservices: [{name: github, repos: [me/other], git: {access: read}}]\n")
        answer = ask("secret", "setup", "github", "--from", f"github-app:{APP}:{key}")
        assert answer.code == 0, answer.err
        note = "note: the token of this app reads {} only if it is public: it is of another account"
        assert {note.format("them/app"), note.format("them/lib")} <= {*answer.err.splitlines()}
        assert (running.folder / "told").read_text() == server.tokens[-1]
        words = told(running)[-1].split()
        assert words[:-4] == ["set", "github.token", "--host", "github.com", "--source", "github-app"]
        assert (words[-4], LIFE - 60 < float(words[-3]) <= LIFE + 1) == ("--ttl", True)
        assert source_of(project) == f"github-app:{APP}:{key} Me/app"
        assert ask("secret", "setup", "github", "--read", "Me/lib").code == 0
        assert source_of(project) == f"github-app:{APP}:{key} Me/app Me/lib:read"
        assert [wish["repositories"] for wish in server.wishes] == [["app"], ["app", "lib"]]
        assert ask("secret", "setup", "github", "--read", "Me/lib").code == 0
        assert len(server.wishes) == 2


def source_of(project: Path) -> str:
    (recipe,) = recipes_of(project, os.environ).load()
    return recipe.source


@pytest.mark.parametrize(
    ("service", "source", "what"),
    [
        ("github", "github-app:1 me/app", f"it names no app, or no file with its private key\n  hint: {FORM}"),
        (
            "gitlab",
            "github-app:1:/k",
            "an app of github.com gives no token for gitlab.com\n  hint: create a token there",
        ),
    ],
)
def test_rejects_a_source_that_is_not_an_app_of_the_server(  # noqa: PLR0917 - the rows
    running: FakeDocker, ask: Ask, project: Path, service: str, source: str, what: str
) -> None:
    before = policy(project, "version: 1\ndomains: [a.test]\n")
    answer = ask("secret", "setup", service, "--repo", "me/app", "--from", source)
    assert (answer.code, policy(project), told(running)) == (1, before, [])
    assert answer.err.endswith(f"error: --from: {what}\n")
