"""dotfiles.sh: every file of ~/.dotfiles is linked into ~, and existing files are kept."""

from pathlib import Path

from bash_harness import Shell

START = "remove_stale_dotfiles; link_dotfiles"
KEPT = "the path already exists; move it away and restart the agent"


def write(home: Path, *names: str) -> None:
    """Make dotfiles that contain their own name."""
    for name in names:
        path = home / ".dotfiles" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def start(shell: Shell, *mounts: str, **env: str) -> str:
    """Run the steps of a start; return the messages."""
    mountinfo = shell.home.parent / "mountinfo"
    mountinfo.write_text("".join(f"1 0 0:1 / {mount} rw - ext4 /dev/x rw\n" for mount in mounts))
    return shell.within(**env)("messages dotfiles", START, AGENT_SANDBOX_MOUNTINFO=str(mountinfo)).stderr


def links(home: Path) -> dict[str, str]:
    """Map the links in ~ outside of ~/.dotfiles to their targets, both relative to ~."""
    found = (path for path in home.rglob("*") if path.is_symlink() and ".dotfiles" not in path.relative_to(home).parts)
    return {str(path.relative_to(home)): str(path.readlink().relative_to(home)) for path in found}


def test_links_each_file_and_creates_parent_directories(shell: Shell) -> None:
    write(shell.home, ".zshrc", ".config/tool/settings.ini", "bin/a b\n c")
    assert start(shell) == ""
    assert links(shell.home) == {
        name: f".dotfiles/{name}" for name in (".zshrc", ".config/tool/settings.ini", "bin/a b\n c")
    }
    assert not (shell.home / ".config" / "tool").is_symlink()


def test_links_nothing_without_dotfiles(shell: Shell) -> None:
    assert (start(shell), links(shell.home)) == ("", {})


def test_does_not_link_dot_git_at_any_depth(shell: Shell) -> None:
    write(shell.home, ".git/config", "sub/.git", "sub/.gitconfig", ".gitignore")
    start(shell)
    assert sorted(links(shell.home)) == [".gitignore", "sub/.gitconfig"]


def test_links_to_symbolic_links_without_following_them(shell: Shell) -> None:
    write(shell.home, "real/inner")
    (shell.home / ".dotfiles" / "alias").symlink_to("real")
    (shell.home / ".dotfiles" / "dangling").symlink_to("nowhere")
    start(shell)
    assert sorted(links(shell.home)) == ["alias", "dangling", "real/inner"]


def test_does_not_link_into_the_sandboxs_own_settings(shell: Shell) -> None:
    write(shell.home, ".config/agent-sandbox/shell.d/evil.sh", ".config/agent-sandbox-other")
    said = start(shell)
    assert links(shell.home) == {".config/agent-sandbox-other": ".dotfiles/.config/agent-sandbox-other"}
    assert said == (
        f"agent-sandbox: {shell.home}/.dotfiles/.config/agent-sandbox/shell.d/evil.sh is not linked: "
        "the sandbox manages that path\n"
    )


def test_does_not_link_mounts_and_paths_below_mounts(shell: Shell) -> None:
    write(shell.home, ".gitconfig", ".config/gh/hosts.yml", ".config/ghost", "my dir/file")
    for name in (".config/gh", "my dir"):
        (shell.home / name).mkdir(parents=True)
    (shell.home / ".gitconfig").touch()
    start(shell, f"{shell.home}/.gitconfig", f"{shell.home}/.config/gh", f"{shell.home}/my\\040dir", "/elsewhere")
    assert links(shell.home) == {".config/ghost": ".dotfiles/.config/ghost"}


def test_links_into_volumes_although_they_are_mounts(shell: Shell) -> None:
    names = (".agent/AGENT.md", ".local/bin/tool", ".cache/tool/seed")
    write(shell.home, *names)
    mounts = [f"{shell.home}/{folder}" for folder in (".agent", ".local", ".cache")]
    assert start(shell, *mounts, AGENT_SANDBOX_STATE=mounts[0]) == ""
    assert links(shell.home) == {name: f".dotfiles/{name}" for name in names}


def test_copies_agent_settings_once_and_makes_them_writable(shell: Shell) -> None:
    state = {"AGENT_SANDBOX_STATE": f"{shell.home}/.agent"}
    write(shell.home, ".agent/settings.json", ".agent/sub/config.toml", ".config/other.json")
    settings = shell.home / ".agent" / "settings.json"
    settings.parent.mkdir()
    settings.symlink_to(shell.home / ".dotfiles" / ".agent" / "settings.json")  # as earlier versions linked it
    (shell.home / ".dotfiles" / ".agent" / "settings.json").chmod(0o400)
    assert start(shell, **state) == ""
    assert links(shell.home) == {".config/other.json": ".dotfiles/.config/other.json"}
    assert (settings.read_text(), settings.stat().st_mode & 0o600) == (".agent/settings.json", 0o600)
    assert (shell.home / ".agent" / "sub" / "config.toml").read_text() == ".agent/sub/config.toml"
    settings.write_text("changed by the agent")
    assert start(shell, **state) == ""
    assert settings.read_text() == "changed by the agent"


def test_names_settings_that_cannot_be_copied(shell: Shell) -> None:
    (shell.home / ".dotfiles" / ".agent").mkdir(parents=True)
    (shell.home / ".dotfiles" / ".agent" / "a.json").symlink_to("nowhere")
    said = start(shell, AGENT_SANDBOX_STATE=f"{shell.home}/.agent")
    name = ".agent/a.json"
    assert said.endswith(
        f"agent-sandbox: {shell.home}/.dotfiles/{name} is not copied: {shell.home}/{name} cannot be written\n"
    )


def test_keeps_and_names_existing_files(shell: Shell) -> None:
    write(shell.home, ".zshrc", ".vimrc", ".config/tool/settings.ini")
    (shell.home / ".zshrc").write_text("mine")
    (shell.home / ".vimrc").symlink_to("/elsewhere")
    (shell.home / ".config").write_text("a file where a directory is wanted")
    said = start(shell)
    assert (shell.home / ".zshrc").read_text() == "mine"
    assert str((shell.home / ".vimrc").readlink()) == "/elsewhere"
    for name in (".zshrc", ".vimrc", ".config/tool/settings.ini"):
        assert f"agent-sandbox: {shell.home}/.dotfiles/{name} is not linked: {KEPT}\n" in said


def test_a_second_start_changes_nothing(shell: Shell) -> None:
    write(shell.home, ".zshrc", ".config/tool/settings.ini")
    start(shell)
    before = links(shell.home)
    assert start(shell) == ""
    assert before == links(shell.home)


def test_removes_links_to_deleted_dotfiles_and_keeps_others(shell: Shell) -> None:
    write(shell.home, ".zshrc", ".vimrc", ".config/tool/settings.ini")
    start(shell)
    (shell.home / "own").symlink_to("/nowhere")
    (shell.home / ".dotfiles" / ".vimrc").unlink()
    (shell.home / ".dotfiles" / ".config" / "tool" / "settings.ini").unlink()
    start(shell)
    assert not (shell.home / ".vimrc").is_symlink()
    assert (shell.home / "own").is_symlink()
    assert [path.name for path in (shell.home / ".config" / "tool").iterdir()] == []


def test_replaces_a_linked_alias_that_became_a_directory(shell: Shell) -> None:
    write(shell.home, "real/inner")
    alias = shell.home / ".dotfiles" / "alias"
    alias.symlink_to("real")
    start(shell)
    alias.unlink()
    write(shell.home, "alias/inner")
    start(shell)
    assert links(shell.home) == {name: f".dotfiles/{name}" for name in ("real/inner", "alias/inner")}


def test_links_and_copies_into_every_state_directory(shell: Shell) -> None:
    states = (f"{shell.home}/.agent", f"{shell.home}/.config/agent")
    write(shell.home, ".agent/AGENT.md", ".config/agent/settings.json", ".config/agent/notes.md")
    assert start(shell, *states, AGENT_SANDBOX_STATE=":".join(states)) == ""
    assert links(shell.home) == {name: f".dotfiles/{name}" for name in (".agent/AGENT.md", ".config/agent/notes.md")}
    assert (shell.home / ".config" / "agent" / "settings.json").read_text() == ".config/agent/settings.json"


def test_links_own_settings_and_removes_the_links_when_the_settings_are_gone(shell: Shell) -> None:
    copies, state = shell.home / ".config" / "agent-sandbox" / "settings", f"{shell.home}/.agent"
    for path in (".agent/AGENT.md", ".agent/skills/a.md", ".agent/settings.json"):
        (copies / path).parent.mkdir(parents=True, exist_ok=True)
        (copies / path).write_text(path)
    (shell.home / ".agent").mkdir()
    (shell.home / ".agent" / "AGENT.md").write_text("the agent's own")
    within = shell.within(AGENT_SANDBOX_STATE=state, AGENT_SANDBOX_MOUNTINFO="/dev/null")
    said = within("messages dotfiles", "link_settings").stderr
    assert said.endswith(f"{copies}/.agent/AGENT.md is not linked: {KEPT}\n")
    assert (shell.home / ".agent" / "AGENT.md").read_text() == "the agent's own"
    assert (shell.home / ".agent" / "skills" / "a.md").readlink() == copies / ".agent/skills/a.md"
    assert not (shell.home / ".agent" / "settings.json").is_symlink()
    for file in (copies / ".agent").rglob("*.*"):
        file.unlink()
    within("messages dotfiles", "link_settings")
    assert sorted(path.name for path in (shell.home / ".agent").rglob("*.*")) == ["AGENT.md", "settings.json"]
