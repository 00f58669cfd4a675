"""The user's environment in the sandbox: dotfiles, shell snippets, git over https, certificates and the uid."""

from pathlib import Path

import pytest

from prepared import build_project
from real_stacks import Project, Projects

OWNER = 1234  # neither root nor the image's usual 1000


def prepare() -> None:
    build_project("claude", owner=OWNER)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home directory on the host machine, with dotfiles and shell snippets for the sandbox."""
    folder = tmp_path_factory.mktemp("home")
    ours = folder / ".config" / "agent-sandbox"
    files = {
        "dotfiles/.zshrc": "export FROM_ZSHRC=$FROM_SHELL_D-then-zshrc\n",
        "dotfiles/.config/tool/settings.ini": "colour = green\n",
        "dotfiles/.config/agent-sandbox/shell.d/evil.sh": "export FROM_SHELL_D=replaced\n",
        "dotfiles/.git/config": "[user]\n",
        "shell.d/10-first.sh": "export FROM_SHELL_D=shell.d\n",
    }
    for name, text in files.items():
        path = ours / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def mine(projects: Projects, home: Path) -> Project:
    """A stack in a directory that another user owns, with that user's dotfiles."""
    project = projects.make("mine", "claude", owner=OWNER, home=home)
    project.sandbox("up")
    return project


def test_dev_has_the_uid_of_the_workspaces_owner(mine: Project) -> None:
    assert f"uid={OWNER}(dev) gid={OWNER}(dev) groups={OWNER}(dev)\n" == mine.exec("id").stdout
    mine.exec("sh", "-c", "mkdir made && touch made/inside ~/at-home")
    assert (mine.path / "made" / "inside").stat().st_uid == OWNER


def test_links_dotfiles_except_git_and_the_sandboxs_own_settings(mine: Project) -> None:
    look = "cd; readlink .zshrc .config/tool/settings.ini; ls -d .git .config/agent-sandbox/shell.d/*"
    links = mine.exec("sh", "-c", look, check=False)
    assert [
        "/home/dev/.dotfiles/.zshrc",
        "/home/dev/.dotfiles/.config/tool/settings.ini",
        ".config/agent-sandbox/shell.d/10-first.sh",
    ] == links.stdout.splitlines()


def test_shell_snippets_run_before_the_users_zshrc(mine: Project) -> None:
    assert mine.exec("zsh", "-ic", "echo $FROM_ZSHRC").stdout == "shell.d-then-zshrc\n"


@pytest.mark.parametrize(
    "url",
    [
        "git@allowed.test:owner/repo.git",
        "ssh://git@allowed.test/owner/repo.git",
        "ssh://git@allowed.test:22/owner/repo.git",
        "https://allowed.test/owner/repo.git",
    ],
)
def test_git_uses_https_for_ssh_urls_too(mine: Project, url: str) -> None:
    mine.allow("allowed.test")
    mine.sandbox("proxy", "reload")
    before = len(mine.internet.requests("allowed.test"))
    mine.exec("git", "ls-remote", url, check=False)
    asked = mine.internet.requests("allowed.test")[before:]
    assert ("https", "/owner/repo.git/info/refs?service=git-upload-pack") == (asked[0]["scheme"], asked[0]["path"])


CLIENTS = {
    "curl": "curl -sS https://allowed.test/curl",
    "python": "python3 -c 'import urllib.request as u; print(u.urlopen(\"https://allowed.test/python\").read().decode())'",
    "node": "node -e 'fetch(\"https://allowed.test/node\").then(r => r.text()).then(console.log)'",
    "openssl": "openssl verify /usr/local/share/agent-sandbox/ca/ca.crt",
}


@pytest.mark.parametrize("client", ["curl", "python", "node"])
def test_clients_trust_the_proxy_without_a_flag(mine: Project, client: str) -> None:
    mine.allow("allowed.test")
    mine.sandbox("proxy", "reload")
    assert f'"path": "/{client}"' in mine.exec("sh", "-c", CLIENTS[client]).stdout


def test_the_system_trust_store_contains_the_ca(mine: Project) -> None:
    clean = ("env", "-i", "PATH=/usr/bin:/bin")
    assert mine.exec(*clean, "sh", "-c", CLIENTS["openssl"]).stdout.endswith(": OK\n")


def test_exec_and_pid_1_have_both_spellings_of_the_proxy_variables(mine: Project) -> None:
    names = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"]
    env = dict(entry.split("=", 1) for entry in mine.exec("env", "-0").stdout.split("\0") if entry)
    assert [name for name in names if not env.get(name)] == []
    started = mine.exec("sh", "-c", "tr '\\0' '\\n' </proc/1/environ").stdout
    assert [name for name in names if f"{name}={env[name]}" not in started.splitlines()] == []


KEPT = (".claude/state", ".history/line", ".cache/npm/x", ".local/share/x", ".cargo/registry/x")
PLANTED = ("bash", "sh", "env", "cat", "grep", "readlink", "dirname", "python3", "git", "curl", "claude")


def test_state_caches_and_history_outlive_the_containers(mine: Project) -> None:
    mine.exec("sh", "-c", "for f; do mkdir -p ~/$(dirname $f) && echo kept >~/$f; done", "sh", *KEPT)
    mine.exec("sh", "-c", "printf '#!/bin/sh\\necho kept\\n' >~/.local/bin/mine; chmod +x ~/.local/bin/mine")
    mine.compose("down", "--timeout", "1")
    mine.sandbox("up")
    assert mine.exec("cat", *(f"/home/dev/{path}" for path in KEPT)).stdout == "kept\n" * len(KEPT)
    assert mine.exec("mine").stdout == "kept\n"


def test_programs_in_the_agents_home_do_not_shadow_those_that_the_checks_run(mine: Project) -> None:
    plant = "for f; do printf '#!/bin/sh\\necho planted\\n' >~/.local/bin/$f && chmod +x ~/.local/bin/$f; done"
    mine.exec("sh", "-c", plant, "sh", *PLANTED)
    for program in PLANTED:
        assert not mine.exec("which", program).stdout.startswith("/home/")
    mine.compose("restart", "agent")
    said = mine.sandbox("verify")
    assert "planted" not in said.stdout + said.stderr
