"""caches.sh: Cargo's downloads are in ~/.cache, and existing files in ~/.cargo are kept."""

from bash_harness import Shell


def test_downloads_of_cargo_are_linked_to_the_cache(shell: Shell) -> None:
    for _ in range(2):
        assert shell("messages caches", "link_caches").stderr == ""
        for name in ("registry", "git"):
            link = shell.home / ".cargo" / name
            assert link.readlink() == shell.home / ".cache" / "cargo" / name
            assert link.is_dir()


def test_keeps_existing_directories_and_links(shell: Shell) -> None:
    (shell.home / ".cargo" / "registry").mkdir(parents=True)
    (shell.home / ".cargo" / "git").symlink_to("/elsewhere")
    assert shell("messages caches", "link_caches").stderr == ""
    assert not (shell.home / ".cargo" / "registry").is_symlink()
    assert str((shell.home / ".cargo" / "git").readlink()) == "/elsewhere"


def test_reports_links_that_cannot_be_made(shell: Shell) -> None:
    (shell.home / ".cargo").write_text("a file")
    said = shell("messages caches", "link_caches").stderr
    for name in ("registry", "git"):
        link = f"{shell.home}/.cargo/{name}"
        assert f"agent-sandbox: cannot link {link} to ~/.cache: Cargo's downloads are lost with the container\n" in said
