"""Protected paths on a real Docker engine: read-only in the sandbox, also after the host machine replaced them."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from engine import run
from real_stacks import Project, Projects, trust, use_own_image

HOST_GIT = ("git", "-c", "safe.directory=*", "-c", "user.name=me", "-c", "user.email=me@example.com")
# Files that match patterns, and names that a mount table escapes.
MATCHED = (".config/mise/config.toml", "Lefthook.yml", "a 1.code-workspace", r"a\b.code-workspace")
REPLACED = "replaced on the host machine, so the agent can write it now"


def git(folder: Path, *argv: str) -> None:
    """Run git on the host machine, as the user."""
    run(*HOST_GIT, "-c", "protocol.file.allow=always", *argv, cwd=folder)


def fill(project: Path) -> None:
    """Make a repository with submodules, a worktree, a separate hooks directory, and settings of other tools."""
    library = project.parent / "library"
    for folder in (library, project):
        folder.mkdir(exist_ok=True)
        git(folder, "init", "--quiet")
        git(folder, "commit", "--quiet", "--allow-empty", "--message=first")
    for path in ("libs/one", "fe"):  # `fe` looks like one of git's object directories
        git(project, "submodule", "--quiet", "add", str(library), path)
    git(project, "init", "--quiet", "vendor/stray")
    git(project, "worktree", "add", "--quiet", str(project.parent / "feature"))
    git(project, "config", "core.hooksPath", "tools/hooks")
    named = ("tools/hooks/pre-commit", ".vscode/tasks.json", ".claude/settings.json", ".envrc", ".mcp.json")
    for path in (*named, *MATCHED):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text("as the user left it\n")
    (project / ".git" / "hooks").rename(project.parent / "hooks")


@pytest.fixture(scope="module")
def project(projects: Projects) -> Project:
    """A running stack in that repository."""
    made = projects.make("repository", "claude", fill=fill)
    use_own_image(made)
    made.sandbox("up")
    return made


def test_the_agent_can_commit_and_create_a_branch(project: Project) -> None:
    project.exec("git", "config", "--global", "user.email", "dev@example.com")
    project.exec("git", "config", "--global", "user.name", "dev")
    project.exec("sh", "-ec", "echo new >file; git add file; git commit --quiet --message=inside; git branch other")
    assert project.exec("git", "log", "-1", "--format=%s").stdout == "inside\n"


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".git/hooks/pre-commit",
        "tools/hooks/pre-commit",
        ".git/modules/libs/one/config",
        ".git/modules/libs/one/hooks/pre-commit",
        "libs/one/.git",
        ".git/modules/fe/config",
        ".git/modules/fe/hooks/pre-commit",
        "fe/.git",
        "vendor/stray/.git/config",
        ".git/worktrees/feature/commondir",
        ".git/worktrees/feature/gitdir",
        ".vscode/tasks.json",
        ".claude/settings.json",
        ".envrc",
        ".mcp.json",
        ".config/mise/config.toml",
        "Lefthook.yml",
        ".env",
        ".devcontainer/policy.yaml",
    ],
)
def test_the_agent_cannot_write_replace_or_link_a_protected_path(project: Project, path: str) -> None:
    place = project.path / path
    before = place.read_bytes() if place.exists() else None
    for command in (
        f"echo evil >> {path}",
        f"rm -f {path} && echo evil > {path}",
        f"echo evil > new && mv -f new {path}",
        f"ln -f {path} second-name && echo evil > second-name",
        f"ln -sf /etc/passwd {path}",
        f"chmod 777 {path}",
    ):
        assert project.exec("sh", "-c", command, check=False).returncode != 0, command
    assert before == (place.read_bytes() if place.exists() else None)


@pytest.mark.parametrize("path", [".git", ".git/modules", ".git/modules/libs/one", ".git/worktrees/feature", ".claude"])
def test_the_agent_cannot_move_a_parent_of_a_protected_path(project: Project, path: str) -> None:
    done = project.exec("mv", path, f"{path}-away", check=False)
    assert "Device or resource busy" in done.stderr


def test_protecting_a_missing_path_leaves_no_file_on_the_host_machine(project: Project) -> None:
    assert list((project.path / ".git" / "hooks").iterdir()) == []
    assert {path.name for path in project.path.iterdir() if path.name.startswith(".")} == {
        ".claude", ".config", ".devcontainer", ".env", ".envrc", ".git", ".gitmodules", ".mcp.json", ".vscode",
    }  # fmt: skip


def status(project: Project) -> dict[str, list[str]]:
    """Return what the agent could write: lost mounts, and unprotected paths."""
    found = json.loads(project.sandbox("status", "--json").stdout)["workspace"]
    return {"lost": found["lost"], "unprotected": [one["path"] for one in found["unprotected"]]}


def test_status_lists_new_files_that_programs_on_the_host_machine_act_on(project: Project) -> None:
    assert status(project) == {"lost": [], "unprotected": []}
    files = "mise.toml .lefthook.toml .git/commondir"
    project.exec("sh", "-ec", f"touch {files}; git init --quiet nested; ln -s nested .idea")
    try:
        nested = [f"nested/.git/{name}" for name in ("branches", "config", "hooks")]
        expected = [".git/commondir", ".idea", ".lefthook.toml", "mise.toml", *nested]
        assert status(project)["unprotected"] == expected
        assert "mise.toml (may run when a shell" in project.sandbox("doctor", check=False).stdout
    finally:
        project.exec("rm", "-rf", "mise.toml", ".lefthook.toml", ".git/commondir", "nested", ".idea")


def test_init_keeps_protected_paths_when_the_agent_makes_too_many_directories(project: Project) -> None:
    before = (project.path / ".devcontainer" / "docker-compose.yml").read_text()
    project.exec("sh", "-ec", "seq -f 0%.0f 20500 | xargs mkdir; touch .nvimrc")
    try:
        told = "not searched for repositories"
        assert told in project.sandbox("doctor", check=False).stdout
        said = project.sandbox("init").stderr
        assert f"{told}: the project has too many directories" in said
        assert "vendor/stray/.git/config" in said  # still protected, as before
        assert told in project.sandbox("status").stdout
        project.sandbox("up")
        assert project.exec("test", "-w", ".nvimrc", check=False).returncode == 1
        for path in (".git/modules/fe/config", ".git/modules/libs/one/hooks/x", "vendor/stray/.git/config", "fe/.git"):
            assert project.exec("sh", "-c", f"echo evil >>{path}", check=False).returncode != 0, path
    finally:
        project.exec("sh", "-c", "seq -f 0%.0f 20500 | xargs rmdir")
    after = (project.path / ".devcontainer" / "docker-compose.yml").read_text()
    targets = [line for line in before.splitlines() if "target: /workspace" in line]
    assert {line.strip() for line in targets} <= {line.strip() for line in after.splitlines()}
    run("rm", str(project.path / ".nvimrc"))
    project.sandbox("init")
    project.sandbox("up")
    assert status(project) == {"lost": [], "unprotected": []}


def replace_file(project: Path, path: str = ".envrc", added: str = "") -> None:
    (project / "new").write_text((project / path).read_text() + added)
    os.chown(project / "new", 1000, 1000)
    (project / "new").rename(project / path)


def replace_folder(project: Path) -> None:
    run("rm", "-r", str(project / ".vscode"))
    (project / ".vscode").mkdir()


@pytest.mark.parametrize(("replace", "path"), [(replace_file, ".envrc"), (replace_folder, ".vscode")])
def test_a_lost_mount_is_reported_stops_exec_and_is_repaired_by_up(
    project: Project, replace: object, path: str
) -> None:
    assert callable(replace)
    replace(project.path)
    os.chown(project.path / path, 1000, 1000)  # files of the user's git belong to the user
    assert project.exec("test", "-w", path, check=False).returncode == 0  # the agent can write it now
    assert status(project)["lost"] == [path]
    assert path in project.exec("zsh", "-ic", "exit").stderr
    assert f"fail  mounts      {path}: {REPLACED}" in project.sandbox("doctor", check=False).stdout
    refused = project.sandbox("exec", "echo", "ran", check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    # The container refuses, or the command does if the health check has failed already.
    assert path in refused.stderr
    assert "was replaced on the host machine, so the agent can write it now\n" in refused.stderr
    said = project.sandbox("up").stderr
    assert (f"{path}: {REPLACED}" in said, " is up; " in said) == (True, True)
    assert status(project)["lost"] == []
    assert project.exec("test", "-w", path, check=False).returncode == 1
    assert project.sandbox("exec", "echo", "ran").stdout == "ran\n"


def test_an_edited_dotenv_is_protected_again_while_the_agent_runs(project: Project) -> None:
    agent = project.containers()["agent"]["Id"]
    replace_file(project.path, ".env", "STRIPE_KEY=sk_live\n")
    done = project.sandbox("exec", "cat", ".env")
    assert "STRIPE_KEY=sk_live" in done.stdout
    assert ("+STRIPE_KEY=(hidden, changed)" in done.stderr, "sk_live" in done.stderr) == (True, False)
    assert (project.containers()["agent"]["Id"], status(project)["lost"]) == (agent, [])
    assert project.exec("test", "-w", ".env", check=False).returncode == 1


def host_git(project: Project, *argv: str) -> None:
    """Run git on the host machine, and give the repository's files to the user."""
    address = f"url.{project.path.parent / 'origin.git'}.insteadOf=https://example.com/x.git"
    git(project.path, "-c", address, *argv)
    run("chown", "-R", "1000:1000", str(project.path / ".git"))


# Each of these commands changes .git/config.
DAILY = (
    ("remote", "add", "-f", "origin", "https://example.com/x.git"),
    ("push", "--quiet", "-u", "origin", "HEAD"),
    ("config", "branch.x.vscode-merge-base", "origin/main"),
    ("branch", "--quiet", "y", "origin/y"),
    ("branch", "--quiet", "-D", "y"),
    ("checkout", "--quiet", "-b", "x", "origin/x"),
    ("checkout", "--quiet", "-b", "w", "origin/x"),
)


def test_the_agent_works_on_when_git_on_the_host_machine_changes_harmless_settings(project: Project) -> None:
    """It cannot write the settings, even if it opened the file before it was protected again."""
    git(project.path.parent, "init", "--quiet", "--bare", "origin.git")
    git(project.path, "push", "--quiet", "../origin.git", "HEAD:refs/heads/x", "HEAD:refs/heads/y")
    agent = project.containers()["agent"]["Id"]
    process = project.exec("sh", "-c", "nohup sleep 1000 >/tmp/out 2>&1 & echo $!").stdout.strip()
    for number, argv in enumerate(DAILY):
        host_git(project, *argv)
        writer = f"exec 9>>.git/config; : >/tmp/opened{number}; until test -e /tmp/go; do sleep .1; done; echo x >&9"
        project.exec(
            "sh", "-c", f"nohup sh -c '{writer}' >/tmp/out 2>&1 & until test -e /tmp/opened{number}; do :; done"
        )
        done = project.sandbox("exec", "echo", "ran")
        assert (done.stdout, status(project)["lost"]) == ("ran\n", []), argv
        assert project.exec("test", "-w", ".git/config", check=False).returncode == 1
    before = (project.path / ".git" / "config").read_bytes()
    project.exec("sh", "-c", "touch /tmp/go; sleep 1")
    assert (project.path / ".git" / "config").read_bytes() == before
    host_git(project, "config", "user.name", "Ann")
    said = project.sandbox("up").stderr
    assert ".git/config: replaced on the host machine; only harmless settings differ" in said
    assert project.containers()["agent"]["Id"] == agent
    assert project.exec("kill", "-0", process).returncode == 0


@pytest.mark.parametrize("by_the_agent", [True, False])
def test_up_refuses_a_new_git_setting_that_can_run_a_program(project: Project, *, by_the_agent: bool) -> None:
    host_git(project, "config", "user.name", "Bea" if by_the_agent else "Cleo")
    if by_the_agent:
        project.exec("git", "config", "--file", "/workspace/.git/config", "core.fsmonitor", "./x")
    else:
        host_git(project, "config", "core.fsmonitor", "./x")
    refused = project.sandbox("exec", "echo", "ran", check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"error: .git/config: {REPLACED}\n" in refused.stderr
    refused = project.sandbox("up", check=False)
    assert "this may run on your machine: .git/config: core.fsmonitor; the agent was stopped" in refused.stderr
    host_git(project, "config", "--unset", "core.fsmonitor")
    project.sandbox("up")
    assert status(project)["lost"] == []


def test_up_shows_what_the_agent_wrote_to_a_replaced_file_before_protecting_it(
    project: Project,
) -> None:
    git(project.path, "config", "user.name", "Ann")
    os.chown(project.path / ".git/config", 1000, 1000)
    project.exec("git", "config", "--file", "/workspace/.git/config", "core.fsmonitor", "./x")
    refused = project.sandbox("up", check=False)
    assert refused.returncode == 1
    assert "+\tfsmonitor = ./x" in refused.stderr
    assert "this may run on your machine: .git/config: core.fsmonitor; the agent was stopped" in refused.stderr
    assert project.sandbox("up", check=False).returncode == 1  # a second `up` does not accept it
    git(project.path, "config", "--unset", "core.fsmonitor")
    project.sandbox("up")
    assert status(project)["lost"] == []


def test_a_restarted_proxy_does_not_load_a_policy_that_the_agent_wrote(project: Project) -> None:
    folder = project.path / ".devcontainer"
    shutil.copytree(folder, project.path.parent / "checkout")  # like a checkout of a branch without it, and back
    folder.rename(project.path.parent / "gone")
    (project.path.parent / "checkout").rename(folder)
    for place in (folder, *folder.iterdir()):
        os.chown(place, 1000, 1000)
    good = project.policy.read_text()
    project.exec("sh", "-c", "printf 'version: 1\ndomains: [denied.test]\n' >/workspace/.devcontainer/policy.yaml")
    proxy = project.containers()["proxy"]["Id"]
    run("docker", "restart", "--time", "1", proxy)  # as the engine does when the proxy runs out of memory
    said = project.wait_until_it_answers("http://denied.test/", 403)
    assert "its directory was replaced on the host after the proxy was created, and now has a different policy" in said
    assert project.curl("https://api.anthropic.com/")[0] == 403
    refused = project.sandbox("up", check=False)
    assert (refused.returncode, "not trusted yet: .devcontainer/policy.yaml" in refused.stderr) == (1, True)
    project.policy.write_text(good)
    project.sandbox("up")
    assert status(project)["lost"] == []
    assert project.curl("https://api.anthropic.com/")[0] == 200
    assert project.curl("http://denied.test/")[0] == 403


@pytest.mark.parametrize("ended", [True, False])
def test_up_detects_what_the_agent_wrote_before_its_container_ended(project: Project, *, ended: bool) -> None:
    git(project.path, "config", "user.name", "Ann" if ended else "Bea")
    os.chown(project.path / ".git/config", 1000, 1000)
    project.exec("git", "config", "--file", "/workspace/.git/config", "core.fsmonitor", "./x")
    if ended:
        project.exec("kill", "1", check=False)
        deadline = time.monotonic() + 60
        while project.containers()["agent"]["State"]["Running"]:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    else:
        project.sandbox("down")
    refused = project.sandbox("up", check=False)
    assert "this may run on your machine: .git/config: core.fsmonitor; the agent was stopped" in refused.stderr
    git(project.path, "config", "--unset", "core.fsmonitor")
    project.sandbox("up")
    assert status(project)["lost"] == []


def test_a_lost_mount_fails_the_health_check(project: Project) -> None:
    override = json.loads(project.override.read_text())
    override["services"]["agent"] = {"healthcheck": {"interval": "2s"}}  # instead of 30
    project.override.write_text(json.dumps(override))
    trust(project.path)
    project.sandbox("up")
    replace_file(project.path)
    deadline = time.monotonic() + 60
    while project.containers()["agent"]["State"]["Health"]["Status"] != "unhealthy":
        assert time.monotonic() < deadline
        time.sleep(1)
    refused = project.sandbox("exec", "echo", "ran", check=False)
    assert f"error: .envrc: {REPLACED}\n" in refused.stderr
    project.sandbox("up")


SAVES = (
    "git config core.pager x",
    "/usr/lib/git-core/git remote add up https://git.example/old && git remote set-url up https://git.example/new",
    "git remote rename up down && git remote remove down && ! git config remote.down.url",
    "git sparse-checkout set --no-cone '/*' && git sparse-checkout disable",
    "git remote add other https://example.com/x.git && git remote | grep other",
    "git checkout -q -b mine && git push --quiet -u /home/dev/origin.git HEAD:refs/heads/main",
    "git branch --set-upstream-to=origin/x && git rev-parse @{upstream}",
    "git checkout -q -b z --track origin/x && git config branch.z.merge && git checkout -q mine",
)


@pytest.mark.parametrize("command", SAVES)
def test_git_saves_settings_for_the_sandbox_alone(project: Project, command: str) -> None:
    project.exec("git", "init", "--quiet", "--bare", "/home/dev/origin.git")
    before = (project.path / ".git" / "config").read_bytes()
    done = project.exec("sh", "-c", command)
    (line,) = {line for line in done.stderr.splitlines() if "config" in line}
    what = "this setting was saved for the sandbox alone; agent-sandbox review shows it on the host machine"
    assert line == f"agent-sandbox: .git/config is read-only in the sandbox: {what}"
    assert not any(word in done.stderr for word in ("busy", "ead-only file"))
    assert (project.path / ".git" / "config").read_bytes() == before


def test_git_on_the_host_machine_reads_none_of_what_git_saved_inside(project: Project) -> None:
    before = run(*HOST_GIT, "config", "--list", "--show-origin", cwd=project.path).stdout
    project.exec("sh", "-c", "git config core.fsmonitor ./x; git config core.editor ./x; git config alias.st '!./x'")
    assert project.exec("git", "config", "alias.st").stdout == "!./x\n"
    assert run(*HOST_GIT, "config", "--list", "--show-origin", cwd=project.path).stdout == before


def test_review_accept_saves_harmless_settings_that_the_agent_could_not_save(project: Project) -> None:
    said = project.sandbox("review", "--accept", ".git/config").stderr
    assert said.startswith("saved in .git/config: remote.other.fetch, remote.other.url, branch.mine.")
    settings = (project.path / ".git" / "config").read_text()
    assert (
        '[remote "other"]\n\tfetch = +refs/heads/*:refs/remotes/other/*\n\turl = https://example.com/x.git\n'
        in settings
    )
    assert "fsmonitor" not in settings
    assert project.exec("git", "config", "--local", "remote.other.url").stdout == "https://example.com/x.git\n"
    assert project.exec("test", "-w", ".git/config", check=False).returncode == 1
    assert project.exec("git", "config", "core.fsmonitor").stdout == "./x\n"
    project.sandbox("review", "--restore", ".git/config")
    assert project.exec("git", "config", "core.fsmonitor", check=False).returncode == 1


def test_git_commits_and_tags_without_the_signing_key(project: Project) -> None:
    for key in ("commit.gpgSign", "tag.gpgSign"):
        project.exec("git", "config", "--global", key, "true")
    project.exec("git", "commit", "--quiet", "--allow-empty", "--message=unsigned")
    project.exec("git", "tag", "--annotate", "--message=unsigned", "v1")
