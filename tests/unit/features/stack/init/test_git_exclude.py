from pathlib import Path

import pytest

from agent_sandbox.features.stack.init.git_exclude import (
    EXCLUDE,
    exclude_file,
    excluding,
    ignoring_here,
    not_ignored,
    to_exclude,
)
from agent_sandbox.host.git.worktree import Outside
from agent_sandbox.problems import UserError
from agent_sandbox.project.render.dotenv import set_variables
from agent_sandbox.project.render.ignore import COMMENT, ignoring
from agent_sandbox.project.render.paths import IGNORE, IGNORED
from agent_sandbox.project.render.reconcile import Change, Verdict

COMPOSE, DEVCONTAINER, POLICY = (
    f".devcontainer/{name}" for name in ("docker-compose.yml", "devcontainer.json", "policy.yaml")
)
NEW = (COMPOSE, DEVCONTAINER, POLICY, ".env")
SERVICE = ".devcontainer/services/node.yaml"


def changes(*paths: str, verdict: Verdict = Verdict.WRITTEN) -> list[Change]:
    return [Change(path=path, before=None, after="", verdict=verdict, why="") for path in paths]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / ".git" / "info").mkdir(parents=True)
    return tmp_path


def test_excludes_only_a_new_env(repository: Path) -> None:
    assert to_exclude(repository, changes(*NEW), EXCLUDE) == (".env",)


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict is not Verdict.WRITTEN])
def test_does_not_exclude_files_that_init_does_not_write(repository: Path, verdict: Verdict) -> None:
    assert to_exclude(repository, changes(*NEW, verdict=verdict), EXCLUDE) == ()


def test_omits_files_that_are_already_ignored(repository: Path) -> None:
    assert not_ignored(repository, [SERVICE, "a", "b"], EXCLUDE) == (SERVICE, "a", "b")
    (repository / EXCLUDE).write_text("/a\n")
    (repository / ".gitignore").write_text("b\n")
    assert not_ignored(repository, [SERVICE, "a", "b"], EXCLUDE) == (SERVICE,)
    (repository / IGNORE).parent.mkdir()
    (repository / IGNORE).write_text("/a.yaml\n/service\n")
    assert not_ignored(repository, [SERVICE], EXCLUDE) == (SERVICE,)
    (repository / IGNORE).write_text(ignoring("", IGNORED))
    assert not_ignored(repository, [SERVICE, COMPOSE, POLICY], EXCLUDE) == (POLICY,)


def test_keeps_existing_lines_of_the_exclude_file(repository: Path) -> None:
    assert excluding(repository, [".env"], EXCLUDE) == {EXCLUDE: f"{COMMENT}\n/.env\n"}
    (repository / EXCLUDE).write_text("# mine\n*.log")
    assert excluding(repository, [".env"], EXCLUDE) == {EXCLUDE: f"# mine\n*.log\n{COMMENT}\n/.env\n"}


def test_removes_exclude_lines_of_an_earlier_version_but_not_the_users_own(repository: Path) -> None:
    before = f"*.log\n{COMMENT}\n/{COMPOSE}\n/{DEVCONTAINER}\n/.env\n"
    (repository / EXCLUDE).write_text(before)
    assert excluding(repository, (), EXCLUDE) == {EXCLUDE: before.replace(f"/{DEVCONTAINER}\n", "")}
    (repository / EXCLUDE).write_text(f"/{DEVCONTAINER}\n")  # the user's own line
    assert excluding(repository, (), EXCLUDE) == {}


def test_raises_for_an_exclude_file_that_is_a_link_only_if_lines_must_be_added(repository: Path) -> None:
    (repository / EXCLUDE).symlink_to("/etc/hostname")
    assert excluding(repository, to_exclude(repository, changes(".env"), EXCLUDE), EXCLUDE) == {}
    with pytest.raises(UserError):
        excluding(repository, [".env"], EXCLUDE)


OURS = set_variables("", {"COMPOSE_FILE": COMPOSE, "COMPOSE_PROJECT_NAME": "app-1"})


def present(dotenv: str = OURS) -> list[Change]:
    files = {COMPOSE: "x", ".env": dotenv}
    return [Change(path=path, before=text, after=text, verdict=Verdict.UNCHANGED) for path, text in files.items()]


LINES = f"{COMMENT}\n/.env\n"


def test_adds_env_to_gitignore_once_even_outside_a_repository(tmp_path: Path) -> None:
    change = ignoring_here(tmp_path, present())
    assert (change.path, change.verdict, change.before, change.after) == (".gitignore", Verdict.WRITTEN, None, LINES)
    (tmp_path / ".gitignore").write_text(LINES)
    assert ignoring_here(tmp_path, present()).verdict is Verdict.UNCHANGED


def test_does_not_add_an_env_with_the_users_own_lines_to_gitignore(tmp_path: Path) -> None:
    assert ignoring_here(tmp_path, present(f"A=1\n{OURS}")).verdict is Verdict.UNCHANGED


def test_does_not_exclude_files_that_gitignore_will_list(repository: Path) -> None:
    new = [Change(path=".env", before=None, after=OURS, verdict=Verdict.WRITTEN)]
    assert to_exclude(repository, [*new, ignoring_here(repository, new)], EXCLUDE) == ()


def test_rejects_a_gitignore_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").symlink_to("/etc/hostname")
    with pytest.raises(UserError) as raised:
        ignoring_here(tmp_path, present())
    assert str(raised.value) == (
        f"{tmp_path}/.gitignore: cannot be used: too many levels of symbolic links; "
        "agent-sandbox does not follow symbolic links: replace it with a real file or directory"
    )


def test_there_is_no_exclude_file_without_a_repository(tmp_path: Path) -> None:
    assert exclude_file(tmp_path, None) is None
    (tmp_path / ".git").write_text("gitdir: ../elsewhere\n")
    assert exclude_file(tmp_path, None) is None


def test_a_worktree_uses_the_exclude_file_of_its_repository(tmp_path: Path) -> None:
    outside = Outside(common=tmp_path / "main" / ".git", name="feature")
    assert exclude_file(tmp_path, outside) == str(tmp_path / "main" / ".git" / "info" / "exclude")
