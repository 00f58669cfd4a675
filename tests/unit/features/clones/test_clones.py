import os
from pathlib import Path

import pytest

from agent_sandbox.engines.container import Container
from agent_sandbox.features.clones import clones
from agent_sandbox.features.clones.clones import (
    chosen_clones,
    claim_clone,
    enter_clone,
    open_clone,
    planned_clone,
    report_unfetched,
    uncommitted,
)
from agent_sandbox.features.protect.gaps import Gaps, look_over
from agent_sandbox.features.review.changes import find_changes, load_baseline
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.images import proxy_name
from agent_sandbox.problems import UserError
from agent_sandbox.project.clone_record import clones_of, save_clone
from agent_sandbox.project.installed import open_project, read_facts
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.formats.faithful import load_yaml
from clone_worlds import HereDriver, commit, git, with_clone_driver
from fake_stack import trust


@pytest.fixture
def driver(project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> HereDriver:
    return with_clone_driver(project, tmp_path_factory.mktemp("clone"), monkeypatch)


def entered(name: str = "fix-1", *, quiet: bool = False) -> Project:
    return enter_clone(open_project(None, cwd=Path.cwd()), name, extra_ca=None, quiet=quiet).project


def test_a_clone_is_a_separate_stack_without_mounts_of_the_project(
    project: Path, driver: HereDriver, capsys: pytest.CaptureFixture[str]
) -> None:
    made = entered()
    assert (driver.folder / "a.txt").read_text() == "one\n"
    text = (made.root / ".devcontainer" / "docker-compose.yml").read_text()
    assert read_facts(made.root).in_volume
    assert str(project) not in text
    volumes = load_yaml(text)["services"]["agent"]["volumes"]
    assert {one["type"] for one in volumes} == {"volume"}
    assert made.name.startswith("app-fix-1-")
    assert look_over(made.root) == Gaps()
    head = git(project, "rev-parse", "HEAD")
    assert capsys.readouterr().err == (
        f"clone fix-1 of {project}: branch main at {head[:10]}\n"
        "note: not in the clone, because it is not committed: .devcontainer/\n"
    )


def test_a_clone_has_the_trusted_policy_and_the_sources_of_secrets(project: Path, driver: HereDriver) -> None:
    recipes_of(project, os.environ).add(Recipe(name="token", hosts=("example.org",), source="env:X"))
    policy = (project / ".devcontainer" / "policy.yaml").read_text()
    (project / ".devcontainer" / "policy.yaml").write_text(f"{policy}# not trusted\n")
    root = entered().root
    assert (root / ".devcontainer" / "policy.yaml").read_text() == policy
    assert [one.name for one in recipes_of(root, os.environ).load()] == ["token"]
    assert driver.steps


@pytest.mark.parametrize("stored", [True, False])
def test_a_new_clone_gets_the_secrets_that_are_stored_for_the_project(
    project: Path, driver: HereDriver, monkeypatch: pytest.MonkeyPatch, *, stored: bool
) -> None:
    monkeypatch.setattr(clones, "run_helper", lambda *_, **_options: None)
    driver.volumes = ("app-1_log", *(("app-1_secrets",) if stored else ()))
    entered()
    entered()
    read = "--user 10001:10001 --mount type=volume,source=app-1_secrets,target=/from,readonly"
    copied = [str(step) for step in driver.steps if read in str(step)]
    copy = f"--entrypoint cp {proxy_name()} --archive /from/. /to/"
    assert [one.endswith(copy) for one in copied] == [True] * stored
    assert project.exists()


def test_the_same_name_reuses_the_clone_with_the_currently_trusted_policy(project: Path, driver: HereDriver) -> None:
    first = entered()
    commit(driver.folder)
    policy = project / ".devcontainer" / "policy.yaml"
    policy.write_text(policy.read_text().replace("example.org", "example.com"))
    trust(project)
    again = entered()
    assert (again.root, again.name) == (first.root, first.name)
    assert "example.com" in again.policy.read_text()
    assert git(driver.folder, "rev-list", "--count", "HEAD") == "2"


@pytest.mark.parametrize(("state", "quiet"), [("running", False), ("running", True), ("exited", False)])
def test_run_reports_a_changed_policy_only_for_a_running_clone(
    project: Path, driver: HereDriver, capsys: pytest.CaptureFixture[str], *, state: str, quiet: bool
) -> None:
    driver.containers = (Container(id="1", service="proxy", image="", state=state),)
    entered()
    policy = project / ".devcontainer" / "policy.yaml"
    policy.write_text(policy.read_text().replace("example.org", "example.com"))
    trust(project)
    said = []
    for _ in range(2):
        capsys.readouterr()
        entered(quiet=quiet)
        said.append(capsys.readouterr().err)
    command = "agent-sandbox proxy reload --path fix-1"
    note = f"note: the policy changed since fix-1 was started; to apply it: {command}\n"
    assert said == [note if state == "running" and not quiet else "", ""]


def test_keeps_a_policy_that_was_edited_in_the_clone(
    project: Path, driver: HereDriver, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = entered().policy
    own = policy.read_text().replace("example.org", "example.net")
    policy.write_text(own)
    for _ in range(2):
        capsys.readouterr()
        assert entered().policy.read_text() == own
        assert capsys.readouterr().err == (
            "note: fix-1 keeps its own policy, because it was edited there; "
            "agent-sandbox policy allow --path fix-1 adds to it\n"
        )
    assert (project / ".devcontainer" / "policy.yaml").read_text() != own
    assert driver.steps


def test_shows_the_projects_path_with_a_tilde_for_the_home_directory(
    project: Path, driver: HereDriver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Path, "home", lambda: project.parent)
    entered()
    assert capsys.readouterr().err.startswith(f"clone fix-1 of ~/{project.name}: branch main at ")
    assert driver.steps


def test_without_a_name_each_run_makes_a_new_clone(project: Path, driver: HereDriver) -> None:
    names = [entered("").root.name for _ in range(2)]
    assert names == ["clone-1", "clone-2"] == [one.name for one in clones_of(project, os.environ)]
    assert driver.steps


@pytest.mark.usefixtures("driver")
def test_default_names_skip_clones_whose_branches_were_fetched(project: Path) -> None:
    git(project, "update-ref", "refs/remotes/box/clone-1/main", "HEAD")
    assert entered("").root.name == "clone-2"


@pytest.mark.usefixtures("driver")
def test_claims_only_new_clones(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = open_project(None, cwd=project)
    claimed = claim_clone(own, "")
    assert (claimed.name, clones_of(project, os.environ)) == ("clone-1", (claimed,))
    with pytest.raises(UserError) as caught:
        claim_clone(own, "clone-1")
    assert str(caught.value) == (
        "--name: the clone clone-1 exists already, and --rm would remove it; leave out --rm, or use another name"
    )
    claimed.root.rmdir()  # its volume may still be there
    with pytest.raises(UserError, match="exists already"):
        claim_clone(own, "clone-1")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(UserError, match="not a directory"):
        claim_clone(own, "")


@pytest.mark.usefixtures("driver")
def test_does_not_claim_a_name_whose_branches_were_fetched(project: Path) -> None:
    git(project, "update-ref", "refs/remotes/box/fix-1/main", "HEAD")
    with pytest.raises(UserError, match="the project has branches of an earlier clone fix-1"):
        claim_clone(open_project(None, cwd=project), "fix-1")
    assert clones_of(project, os.environ) == ()


@pytest.mark.usefixtures("driver")
def test_default_names_skip_a_name_that_another_command_just_claimed(project: Path) -> None:
    own = open_project(None, cwd=project)
    claimed = claim_clone(own, "")
    claimed.root.with_suffix(".json").unlink()  # as between the two steps of the other command, or after it was killed
    assert claim_clone(own, "").name == "clone-2"


def test_does_not_refill_a_clone_that_another_command_has_just_filled(
    project: Path, driver: HereDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = open_project(None, cwd=project)
    late = {name: clones._clone_for(own, name) for name in ("", "clone-1")}
    entered("")
    new = commit(driver.folder)
    monkeypatch.setattr(clones, "_clone_for", lambda _project, name: late[name])
    entered("clone-1")
    assert git(driver.folder, "rev-parse", "HEAD") == new
    with pytest.raises(UserError, match="another command has just made this clone"):
        entered("")


def test_a_clone_that_was_not_filled_is_filled_by_the_next_run(project: Path, driver: HereDriver) -> None:
    driver.folder.rename(driver.folder.with_name("away"))
    with pytest.raises(OSError, match="No such file"):
        entered()
    (clone,) = clones_of(project, os.environ)
    assert not clone.started
    driver.folder.mkdir()
    entered()
    assert (driver.folder / "a.txt").exists()


def test_a_clone_of_a_detached_head_has_a_branch_with_the_clones_name(project: Path, driver: HereDriver) -> None:
    git(project, "switch", "--quiet", "--detach")
    entered()
    assert git(driver.folder, "symbolic-ref", "--short", "HEAD") == "fix-1"


def test_a_dry_run_makes_no_clone(project: Path, driver: HereDriver, capsys: pytest.CaptureFixture[str]) -> None:
    own = open_project(None, cwd=project)
    assert planned_clone(own, "fix-1", removes=True) is None
    assert clones_of(project, os.environ) == ()
    assert capsys.readouterr().err == "would make the clone fix-1\n"
    made = entered()
    assert planned_clone(own, "fix-1", removes=False) == made
    assert capsys.readouterr().err.endswith("would use the clone fix-1\n")
    git(project, "update-ref", "refs/remotes/box/fix-2/main", "HEAD")
    for name in ("fix-1", "fix-2"):  # it exists; its branches were fetched
        with pytest.raises(UserError) as planned:
            planned_clone(own, name, removes=True)
        with pytest.raises(UserError) as claimed:
            claim_clone(own, name)
        assert planned.value.problems == claimed.value.problems
    assert len(driver.steps) == 1


def test_notes_what_a_new_clone_lacks(project: Path, driver: HereDriver, capsys: pytest.CaptureFixture[str]) -> None:
    (project / ".gitmodules").write_text("")
    (project / ".git" / "lfs").mkdir()
    commit(project, ".gitmodules")
    (project / "a.txt").write_text("changed\n")
    entered()
    assert capsys.readouterr().err.splitlines()[1:] == [
        "note: not in the clone, because it is not committed: a.txt, .devcontainer/",
        "note: submodules are empty in the clone: inside, `git submodule update --init` fetches what the policy allows",
        "note: Git LFS files are pointers in the clone: inside, `git lfs pull` fetches what the policy allows",
    ]
    assert (driver.folder / "a.txt").read_text() == "one\n"


def test_an_unknown_clone_name_is_an_error_that_lists_the_clones(project: Path, driver: HereDriver) -> None:
    with pytest.raises(UserError) as raised:
        chosen_clones("", None)
    assert str(raised.value) == f"{project}: this project has no clone; agent-sandbox run --clone makes one"
    entered()
    assert [one.name for one in chosen_clones("", None)] == ["fix-1"]
    with pytest.raises(UserError) as raised:
        chosen_clones("fix-2", None)
    assert str(raised.value) == f"{project}: this project has no clone named fix-2; there is fix-1"
    assert driver.steps


def test_finds_a_clone_by_path_or_from_any_directory_by_its_stack_name(
    project: Path, driver: HereDriver, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = entered().name
    entered("fix-2")
    found = [chosen_clones("", Path("fix-1")), chosen_clones("fix-1", None)]
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    found += [chosen_clones(stack, None), chosen_clones("", Path(stack)), chosen_clones("fix-1", project)]
    assert [[one.name for one in clones] for clones in found] == [["fix-1"]] * 5
    assert driver.steps


def test_a_clone_whose_project_is_gone_is_an_error(project: Path, driver: HereDriver) -> None:
    entered()
    (clone,) = clones_of(project, os.environ)
    project.rename(project.with_name("away"))
    with pytest.raises(UserError) as raised:
        open_clone(clone)
    assert str(raised.value) == (f"fix-1: the project that it was made from no longer exists; restore {project}")
    project.with_name("away").rename(project)
    assert driver.steps


@pytest.mark.usefixtures("driver")
def test_the_first_clone_records_the_projects_files_for_review(project: Path) -> None:
    (project / "Makefile").write_text("old\n")
    entered()
    (project / "Makefile").write_text("merged\n")
    entered("fix-2")
    baseline = load_baseline(project, os.environ)
    assert baseline is not None
    assert [change.path for change in find_changes(project, baseline).changes] == ["Makefile"]


def test_reports_what_would_be_lost_with_a_clone(
    project: Path, driver: HereDriver, capsys: pytest.CaptureFixture[str]
) -> None:
    entered()
    (clone,) = clones_of(project, os.environ)
    capsys.readouterr()
    report_unfetched(clone)
    assert capsys.readouterr().err == ""
    commit(driver.folder)
    git(driver.folder, "update-ref", "refs/heads/z\u200b", "HEAD")
    (driver.folder / "a.txt").write_text("stashed\n")
    git(driver.folder, "stash", "push", "--quiet")
    stash = git(driver.folder, "rev-parse", "refs/stash")[:10]
    (driver.folder / "new").write_text("")
    report_unfetched(clone)
    assert capsys.readouterr().err == (
        "not fetched: commits of main: agent-sandbox fetch fix-1\n"
        f"not fetched: the stashes stash-{stash}: agent-sandbox fetch fix-1\n"
        "not fetched: z\\u200b: its name contains invisible characters\n"
        "not committed: 1 file: new\n"
    )
    (driver.folder / ".git" / "HEAD").unlink()
    report_unfetched(clone)
    assert capsys.readouterr().err.startswith("warning: cannot list what was not fetched: app-fix-1-")
    unfilled = type(clone)(project=clone.project, name="fix-2", root=clone.root.with_name("fix-2"), title="x")
    save_clone(unfilled)
    report_unfetched(unfilled)
    assert capsys.readouterr().err == ""


def test_describes_uncommitted_files() -> None:
    assert [*uncommitted(["a", "b"], ["build/"], complete=False)] == [
        "not committed: 2 files: a, b",
        "ignored by git: build/",
        "there may be more uncommitted files: the list is incomplete",
    ]
    assert [*uncommitted([], [], complete=True)] == []
