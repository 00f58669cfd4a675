"""git in the sandbox: SSH addresses are fetched by https, or git suggests the https address at once."""

import subprocess

import pytest

from bash_harness import Shell, StandInProxy


@pytest.mark.parametrize(
    ("ssh", "https"),
    [
        ("git@host.test:owner/repo.git", "https://host.test/owner/repo.git"),
        ("git@host.test:/owner/repo.git", "https://host.test/owner/repo.git"),
        ("git@host.test:~user/repo", "https://host.test/~user/repo"),
        ("git@host.test:2222/owner/repo", "https://host.test/2222/owner/repo"),
        ("git@[2001:db8::1]:owner/repo", "https://[2001:db8::1]/owner/repo"),
        ("ssh://host.test/owner/repo", "https://host.test/owner/repo"),
        ("ssh://git@host.test/owner/repo", "https://host.test/owner/repo"),
        ("ssh://git@host.test:2222/owner/repo", "https://host.test/owner/repo"),
        ("ssh://git@[2001:db8::1]:22/owner/repo", "https://[2001:db8::1]/owner/repo"),
        ("git+ssh://git@host.test/owner/repo", "https://host.test/owner/repo"),
    ],
)
def test_converts_ssh_addresses_to_https(shell: Shell, ssh: str, https: str) -> None:
    script = f"source {shell.image}/git-remote-agent-sandbox; split_address '{ssh}'; echo https://$host/$path"
    assert f"{https}\n" == shell("messages", script).stdout


@pytest.mark.parametrize("address", ["", "host", "git@", "git@:path", "ssh://", "ssh://host.test", "/a/path"])
def test_refuses_invalid_ssh_addresses(shell: Shell, address: str) -> None:
    done = shell("messages", f"source {shell.image}/git-remote-agent-sandbox; split_address '{address}'", check=False)
    assert (1, "") == (done.returncode, done.stdout)
    assert done.stderr == (
        f"agent-sandbox: {address} is not an ssh address; write git@host:path or https://host/path\n"
    )


def git(shell: Shell, proxy: StandInProxy, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run git as in the image: our settings, our remote helper, and a proxy that denies."""
    programs = shell.home / "bin"
    programs.mkdir(exist_ok=True)
    for program in ("git-remote-agent-sandbox", "ssh-is-closed"):
        (programs / program).unlink(missing_ok=True)
        (programs / program).symlink_to(shell.image / program)
    config = shell.home / "system"
    settings = (shell.image / "etc" / "gitconfig").read_text()
    config.write_text(settings.replace("/usr/local/lib/agent-sandbox/ssh-is-closed", str(programs / "ssh-is-closed")))
    return shell.run(
        *("git", *argv),
        check=False,
        GIT_CONFIG_SYSTEM=str(config),
        GIT_TERMINAL_PROMPT="0",
        PATH=f"{programs}:/usr/bin:/bin",
        https_proxy=f"http://{proxy.address}",
        LC_ALL="C",
    )


@pytest.fixture
def repository(shell: Shell, proxy: StandInProxy) -> Shell:
    """A shell whose home is a repository with one commit."""
    who = ("-c", "user.name=Dev", "-c", "user.email=dev@example.com")
    git(shell, proxy, "init", "--quiet", ".")
    git(shell, proxy, *who, "commit", "--quiet", "--allow-empty", "--message=First")
    return shell


@pytest.mark.parametrize(
    ("url", "https"),
    [
        ("git@host.test:owner/repo.git", "https://host.test/owner/repo.git/"),
        ("ssh://me@host.test:2222/owner/repo", "https://host.test/owner/repo/"),
        ("ssh://host.test/owner/repo", "https://host.test/owner/repo/"),
        ("git@github.com:owner/repo", "https://github.com/owner/repo/"),
        ("ssh://git@gitlab.com/owner/repo", "https://gitlab.com/owner/repo/"),
        ("https://github.com/owner/repo", "https://github.com/owner/repo/"),
    ],
)
@pytest.mark.parametrize("verb", [("ls-remote",), ("push", "HEAD:refs/heads/x")])
def test_git_connects_by_https_through_the_proxy(
    repository: Shell, proxy: StandInProxy, verb: tuple[str, ...], url: str, https: str
) -> None:
    done = git(repository, proxy, verb[0], url, *verb[1:])
    assert f"CONNECT {https.split('/')[2]}:443" in proxy.answers.asked
    assert f"unable to access '{https}'" in done.stderr


@pytest.mark.parametrize("verb", [("ls-remote",), ("push", "HEAD:refs/heads/x")])
def test_https_wins_over_a_rewrite_to_ssh_in_own_dotfiles(
    repository: Shell, proxy: StandInProxy, verb: tuple[str, ...]
) -> None:
    rewrite = '[url "git@github.com:"]\n  insteadOf = https://github.com/\n  pushInsteadOf = https://github.com/\n'
    (repository.home / ".gitconfig").write_text(rewrite)
    done = git(repository, proxy, verb[0], "https://github.com/o/r", *verb[1:])
    assert "unable to access 'https://github.com/o/r/'" in done.stderr


def test_git_uses_https_for_submodules_with_ssh_addresses(repository: Shell, proxy: StandInProxy) -> None:
    (repository.home / ".gitmodules").write_text('[submodule "lib"]\n  path = lib\n  url = git@host.test:owner/lib\n')
    git(repository, proxy, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},lib")
    done = git(repository, proxy, "submodule", "update", "--init")
    assert "unable to access 'https://host.test/owner/lib/'" in done.stderr


@pytest.mark.parametrize("url", ["git@host.test:owner/repo", "ssh://me@host.test:2222/owner/repo"])
def test_records_one_https_rewrite_per_host_for_git_lfs(repository: Shell, proxy: StandInProxy, url: str) -> None:
    git(repository, proxy, "remote", "add", "origin", url)
    for _ in range(2):
        git(repository, proxy, "ls-remote", url)
    # git-lfs reads these rewrites itself; `get-url` prints the rewritten address.
    assert git(repository, proxy, "remote", "get-url", "origin").stdout == "https://host.test/owner/repo\n"
    assert (repository.home / ".local/state/agent-sandbox/git-hosts").read_text().count("insteadOf") == 1


def test_suggests_the_https_address_for_ssh_users_other_than_git(shell: Shell, proxy: StandInProxy) -> None:
    done = git(shell, proxy, "ls-remote", "someone@host.test:owner/repo.git")
    assert done.stderr.startswith(
        "agent-sandbox: ssh does not leave the sandbox; use https://host.test/owner/repo.git\n"
    )
    assert proxy.answers.asked == ()


def test_git_disables_automatic_garbage_collection_in_worktrees(shell: Shell) -> None:
    def ask(*argv: str) -> str:
        system = str(shell.image / "etc" / "gitconfig")
        done = shell.run(
            "git", "-C", str(shell.home), *argv, check=False, GIT_CONFIG_SYSTEM=system, HOME=str(shell.home)
        )
        return done.stdout.strip()

    ask("init", "--quiet", "main")
    ask("-C", "main", "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "--allow-empty", "--message=x")
    ask("-C", "main", "worktree", "add", "--quiet", "../feature")
    for folder, gc, maintenance in (("main", "", ""), ("feature", "0", "false")):
        assert ask("-C", folder, "config", "gc.auto") == gc
        assert ask("-C", folder, "config", "maintenance.auto") == maintenance


def test_git_status_works_in_a_worktree_whose_submodule_repository_is_missing(shell: Shell) -> None:
    system, home = str(shell.image / "etc" / "gitconfig"), str(shell.home)
    made = (
        "git config --global protocol.file.allow always; git config --global user.email x@example.com; "
        "git config --global user.name x; git init -q lib; git -C lib commit -q --allow-empty -m x; git init -q main; "
        "git -C main submodule --quiet add ../lib sub; git -C main commit -q -m x; "
        "git -C main worktree add -q ../feature; git -C feature submodule --quiet update --init; "
        "rm -r main/.git/worktrees/feature/modules; git -C feature status --short"
    )
    done = shell.run("sh", "-c", f"cd {home} && {made}", check=False, HOME=home)
    assert "not a git repository" in done.stderr
    done = shell.run("git", "-C", f"{home}/feature", "status", check=False, HOME=home, GIT_CONFIG_SYSTEM=system)
    assert (done.returncode, done.stderr) == (0, "")
