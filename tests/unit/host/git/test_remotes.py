from pathlib import Path

import pytest

from agent_sandbox.host.git.remotes import Address, named_repositories, parse_address
from repositories import bare, repository, worktree
from table_tests import each

GITHUB = Address("github.com", "o/r")


@each(
    ("text", "address"),
    [
        ("https://github.com/o/r", GITHUB),
        ("https://github.com/o/r.git/", GITHUB),
        ("https://GitHub.com:443/o/r.git", GITHUB),
        ("https://me:secret@github.com/o/r.git", GITHUB),
        ("git@github.com:o/r.git", GITHUB),
        ("github.com:o/r", GITHUB),
        ("git@github.com:/o/r", GITHUB),
        ("ssh://git@github.com/o/r.git", GITHUB),
        ("ssh://git@github.com:22/o/r", GITHUB),
        ("https://gitlab.com/g/s/r.git", Address("gitlab.com", "g/s/r")),
        ("https://github.com/o/r.github.io", Address("github.com", "o/r.github.io")),
        *(
            (text, None)
            for text in (
                "",
                "http://github.com/o/r",
                "git://github.com/o/r",
                "file:///o/r",
                "/srv/o/r.git",
                "../o/r.git",
                "https://github.com/o",
                "https://github.com//o/r",
                "https://github.com/o//r",
                "https://github.com/o/../r",
                "https://github.com/./r",
                "https://github.com/o%2Fr",
                "https://github.com/o/r%2F..%2Fx",
                "https://github.com/o/r?x",
                "https://github.com/o/r#x",
                "https://github.com/o/r\n",
                "https://github.com:8443/o/r",
                "https://evil.test/@github.com/o/r",
                "https://a@b@github.com/o/r",
                "https://github.com\\@evil.test/o/r",
                "https://github/o/r",
                "git@github.com:o/r -x",
                "git@github.com:-o/r",
                "ext::sh -c x github.com:o/r",
                "https://github.com/ö/r",
                f"https://github.com/o/{'r' * 500}",
            )
        ),
    ],
)
def test_parses_only_usual_spellings_of_repository_urls(text: str, address: Address | None) -> None:
    assert parse_address(text) == address


def names(project: Path) -> list[tuple[str, str, bool]]:
    return [(one.address.path, one.where, one.pushed) for one in named_repositories(project)]


def section(kind: str, name: str, **settings: str) -> str:
    return f'[{kind} "{name}"]\n' + "".join(f"\t{key} = {value}\n" for key, value in settings.items())


ORIGIN, UPSTREAM = (
    section("remote", name, url=f"git@github.com:{path}") for name, path in (("origin", "me/r"), ("upstream", "o/r"))
)


@each(
    ("config", "expected"),
    [
        (UPSTREAM + ORIGIN, [("me/r", "remote origin", True), ("o/r", "remote upstream", False)]),
        (UPSTREAM, [("o/r", "remote upstream", True)]),
        (
            f"{ORIGIN}{UPSTREAM}[remote]\n\tpushDefault = upstream\n",
            [("o/r", "remote upstream", True), ("me/r", "remote origin", False)],
        ),
        (
            section("remote", "origin", url="https://github.com/o/r", pushurl="git@github.com:me/r"),
            [("me/r", "remote origin", True), ("o/r", "remote origin", False)],
        ),
        (
            section("submodule", "a.b", url="https://github.com/o/lib", active="true"),
            [("o/lib", "submodule a.b", False)],
        ),
        (section("submodule", "a", path="https://github.com/o/lib"), []),
        (section("branch", "x", url="https://github.com/o/lib"), []),
        ("not = [a config", []),
        ("", []),
    ],
)
def test_lists_remotes_and_initialised_submodules(
    tmp_path_factory: pytest.TempPathFactory, config: str, expected: list[tuple[str, str, bool]]
) -> None:
    project = tmp_path_factory.mktemp("project")
    (repository(project) / "config").write_text(config)
    assert names(project) == expected


def test_reads_only_the_repositorys_own_settings(tmp_path: Path) -> None:
    project = tmp_path / "app"
    project.mkdir()
    (tmp_path / "more").write_text(ORIGIN)
    (project / ".gitmodules").write_text(section("submodule", "x", path="x", url="https://github.com/o/x"))
    (repository(project) / "config").write_text(f"[include]\n\tpath = {tmp_path / 'more'}\n")
    assert names(project) == []


def test_a_worktree_has_the_remotes_of_its_repository(tmp_path: Path) -> None:
    common = bare(tmp_path / "main" / ".git")
    (common / "config").write_text(ORIGIN)
    worktree(tmp_path / "feature", common)
    assert names(tmp_path / "feature") == [("me/r", "remote origin", True)]


def test_ignores_a_git_file_or_link_that_points_to_another_repository(tmp_path: Path) -> None:
    common = bare(tmp_path / "private" / ".git")
    (common / "config").write_text(ORIGIN)
    project = tmp_path / "app"
    project.mkdir()
    (project / ".git").write_text(f"gitdir: {common}\n")
    assert names(project) == []
    (project / ".git").unlink()
    (project / ".git").symlink_to(common)
    assert names(project) == []


def test_ignores_settings_behind_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(ORIGIN)
    project = tmp_path / "app"
    project.mkdir()
    git = repository(project)
    (git / "config").unlink()
    (git / "config").symlink_to(tmp_path / "elsewhere")
    assert names(project) == []
    assert names(tmp_path / "nothing") == []
