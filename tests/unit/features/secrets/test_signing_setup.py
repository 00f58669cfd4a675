import os
from pathlib import Path
from shutil import which

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from fake_docker import FakeDocker
from run_cli import Ask
from secret_setup import accepting_proxy, policy, told

# Found before the tests hide all programs.
GIT = which("git")
SIGNED = "git in the sandbox signs commits of me@example.com; the key stays in the proxy, which signs nothing else"


@pytest.fixture
def running(project: Path, docker: FakeDocker) -> FakeDocker:
    """Have a proxy that keeps what it is told and reloads its policy."""
    assert project.exists()
    return accepting_proxy(docker)


@pytest.fixture
def key(docker: FakeDocker, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a key on the host machine, and an identity in git's settings."""
    (docker.folder / "git").symlink_to(str(GIT))
    file = tmp_path_factory.mktemp("keys") / "id_ed25519"
    file.write_bytes(Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    file.chmod(0o600)
    settings = file.with_name("gitconfig")
    settings.write_text(f"[user]\n\temail = me@example.com\n\tsigningKey = {file}.pub\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    return file


def test_sets_up_signing_with_the_key_of_the_host_machine(
    running: FakeDocker, ask: Ask, project: Path, key: Path
) -> None:
    policy(project, "version: 1\ndomains: [a.test]\nsettings:\n  ask: unlisted\n")
    answer = ask("secret", "setup", "signing")
    assert (answer.code, answer.err.splitlines()[-1]) == (0, SIGNED)
    assert policy(project) == (
        "version: 1\ndomains: [a.test]\nsettings:\n  ask: unlisted\n  sign_commits: git.signing-key\n"
    )
    assert told(running) == [
        "set git.signing-key --host agent-sandbox.internal --source ssh-key --folder /state/secrets"
    ]
    value = (running.folder / "told").read_text()
    assert value == f"me@example.com {''.join(key.read_text().splitlines()[1:-1])}"
    recipe = Recipe(name="git.signing-key", hosts=("agent-sandbox.internal",), source=f"ssh-key:{key}")
    assert recipes_of(project, os.environ).load() == (recipe,)


def test_signing_setup_works_before_the_first_up(project: Path, docker: FakeDocker, ask: Ask, key: Path) -> None:
    policy(project, "version: 1\ndomains: [a.test]\n")
    docker.says("ps --all")
    answer = ask("secret", "setup", "signing", "--from", f"ssh-key:{key}")
    assert (answer.code, answer.err.splitlines()) == (
        0,
        ["git.signing-key will be fetched from its source by agent-sandbox up", SIGNED],
    )
    assert policy(project).endswith("settings:\n  sign_commits: git.signing-key\n")


@pytest.mark.parametrize("setting", ["", "user.signingKey=0xDEADBEEF", "user.signingKey=ssh-ed25519 AAAA"])
def test_fails_and_changes_nothing_without_a_key_file(
    running: FakeDocker, ask: Ask, project: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    before = policy(project)
    name, _, value = setting.partition("=")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    if name:
        for variable, text in (("COUNT", "1"), ("KEY_0", name), ("VALUE_0", value)):
            monkeypatch.setenv(f"GIT_CONFIG_{variable}", text)
    answer = ask("secret", "setup", "signing")
    assert (answer.code, answer.err) == (
        1,
        (
            "error: signing: git on this machine has no SSH key file in `user.signingKey`\n"
            "  hint: create one: ssh-keygen -t ed25519 -N '' -f FILE, then name it with --from ssh-key:FILE\n"
        ),
    )
    assert (policy(project), told(running)) == (before, [])
