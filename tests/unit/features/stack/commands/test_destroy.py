import io
import os
import sys
from pathlib import Path

import pytest

from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.clones.clones import enter_clone
from agent_sandbox.features.policy.learning import Recording, load_recording, save_recording
from agent_sandbox.features.secrets.sources.recipes import Recipe, recipes_of
from agent_sandbox.features.stack.commands import destroy as module
from agent_sandbox.features.stack.commands.destroy import destroy
from agent_sandbox.images import base_name
from agent_sandbox.project.clone_record import clones_of
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.trust_store import open_store
from agent_sandbox.stack.naming import stack_name
from clone_worlds import commit, with_clone_driver, with_clones
from fake_docker import FakeDocker
from fake_stack import compose_line
from fake_tty import Person

REMOVE = " down --remove-orphans --volumes"
LEFT = "volume prune --all --force --filter label=com.docker.compose.project=app-1"


@pytest.fixture
def engine(project: Path, docker: FakeDocker) -> FakeDocker:
    """Fake an engine with a container, no network, and a volume."""
    assert project.exists()
    docker.says("ps --all", out="app-1-agent-1\n").says("network ls").says("volume ls", out="app-1_state\n")
    return docker.says(LEFT).says("compose")


def test_yes_removes_everything_without_asking(engine: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: destroy(yes=True)) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "removed app-1: 1 container, 1 volume"
    assert engine.calls[-2:] == [f"{compose_line(Path.cwd())}{REMOVE}", LEFT]


def test_reports_that_there_is_nothing_to_remove(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    docker.says("ps --all").says("network ls").says("volume ls")
    assert exit_code(destroy) == 0
    assert exit_code(lambda: destroy(yes=True, quiet=True)) == 0
    assert capsys.readouterr().err == "nothing to remove: app-1 has no resources on this Docker engine\n"
    assert not any(call.endswith(REMOVE) for call in docker.calls)


@pytest.mark.parametrize(("typed", "code", "removed"), [("y\n", 0, 1), ("YES\n", 0, 1), ("n\n", 1, 0), ("", 1, 0)])
def test_lists_what_would_be_removed_and_asks(
    engine: FakeDocker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    typed: str,
    code: int,
    removed: int,
) -> None:
    monkeypatch.setattr(sys, "stdin", Person(typed))
    assert exit_code(lambda: destroy(quiet=True)) == code
    assert engine.calls.count(f"{compose_line(Path.cwd())}{REMOVE}") == removed
    shown = "containers: app-1-agent-1\nnetworks: none\nvolumes: app-1_state\nRemove all of it? [y/N] "
    assert capsys.readouterr().err == shown + ("" if removed else "nothing was removed\n")


def test_removes_images_on_request_and_reports_images_in_use(
    engine: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    base = base_name()
    inspected = f'{{"tags": ["{base}"], "labels": {{}}}}\n'
    engine.says("image rm", code=1, err="in use").says("image inspect", out=inspected)
    assert exit_code(lambda: destroy(yes=True, images=True)) == 0
    removed = [call for call in engine.calls if call.startswith("image rm")]
    assert removed[-1] == f"image rm {base}"
    assert capsys.readouterr().err.endswith(f"  {base} kept: a container of another project uses it\n")


@pytest.mark.parametrize(("path", "option"), [(None, ""), (Path(), " --path .")])
def test_fails_without_a_terminal_and_removes_nothing(
    path: Path | None,
    option: str,
    engine: FakeDocker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert exit_code(lambda: destroy(path=path)) == 1
    expected = (
        "error: app-1: this removes the agent's state, and cannot be confirmed without a terminal\n"
        f"  hint: agent-sandbox destroy{option} --yes\n"
    )
    assert capsys.readouterr().err == expected
    assert not any(call.endswith(REMOVE) or call == LEFT for call in engine.calls)


def test_dry_run_prints_the_commands_without_calling_docker(
    engine: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(lambda: destroy(dry_run=True)) == 0
    planned = f"docker {compose_line(Path.cwd())}{REMOVE}\ndocker {LEFT}\n"
    assert (capsys.readouterr().out, engine.calls) == (planned, [])


FILES = ".devcontainer/policy.yaml, .devcontainer/docker-compose.yml"


def test_what_is_written_while_the_question_waits_stays(
    engine: FakeDocker, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine.rules
    (project / ".env").write_text("A=1\nCOMPOSE_FILE=.devcontainer/docker-compose.yml\n")

    def write(_plan: object, **_options: bool) -> None:
        with (project / ".env").open("a") as file:
            file.write("B=2\n")

    monkeypatch.setattr(module, "execute", write)
    assert exit_code(lambda: destroy(files=True, yes=True)) == 0
    assert [(one.name, one.read_text()) for one in project.iterdir()] == [(".env", "A=1\nB=2\n")]


def test_removes_what_init_wrote_on_request(
    engine: FakeDocker, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert engine.rules
    (project / "mine").write_text("x")
    assert exit_code(lambda: destroy(files=True, dry_run=True)) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"# files: {FILES}"
    monkeypatch.setattr(sys, "stdin", Person("y\n"))
    assert exit_code(lambda: destroy(files=True)) == 0
    shown = capsys.readouterr().err
    assert f"\nfiles: {FILES}\n" in shown
    assert (" files\n" in shown, [one.name for one in project.iterdir()]) == (True, ["mine"])
    assert open_store(os.environ).load(project) is None


def test_deletes_the_recording(engine: FakeDocker, project: Path) -> None:
    assert engine.rules
    save_recording(project, Recording(since="2026-01-02T10:00:00.000Z"), os.environ)
    assert exit_code(lambda: destroy(yes=True)) == 0
    assert load_recording(project, os.environ) is None


def test_deletes_the_sources_of_secrets_only_if_the_stack_is_removed(
    engine: FakeDocker, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine.rules
    recipes_of(project, os.environ).add(Recipe(name="a", hosts=("a.test",), source="pass a"))
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    exit_code(destroy)
    exit_code(lambda: destroy(dry_run=True))
    assert len(recipes_of(project, os.environ).load()) == 1
    assert exit_code(lambda: destroy(yes=True)) == 0
    assert recipes_of(project, os.environ).load() == ()


def test_removes_a_clone_with_its_record_and_trust_and_lists_commits_not_fetched(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    driver = with_clone_driver(project, tmp_path_factory.mktemp("clone"), monkeypatch)
    made = enter_clone(open_project(None, cwd=project), "fix-1", extra_ca=None, quiet=True).project
    commit(driver.folder)
    monkeypatch.setattr(module, "driver", lambda: driver)
    monkeypatch.setattr(module, "backend", lambda: driver.planner)
    monkeypatch.setattr(module, "execute", lambda *_args, **_options: None)
    driver.volumes = ("fix-1_workspace",)
    assert exit_code(lambda: destroy(path=Path("fix-1"), yes=True)) == 0
    assert capsys.readouterr().err == (
        f"not fetched: commits of main: agent-sandbox fetch fix-1\nremoved {made.name}: 1 volume\n"
    )
    assert (clones_of(project, os.environ), open_store(os.environ).load(made.root)) == ((), None)
    assert not made.root.exists()


@pytest.fixture
def clones(project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make two clones of the project, before an engine is faked: this needs git."""
    with_clones(project, tmp_path_factory.mktemp("clones"), monkeypatch, "fix-1", "fix-2")


@pytest.mark.usefixtures("clones", "engine")
def test_names_the_clones_that_stay_by_names_that_find_them(
    project: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert exit_code(lambda: destroy(yes=True)) == 0
    stay = "its clones stay: fix-1, fix-2; to remove one: agent-sandbox destroy --path"
    assert capsys.readouterr().err.splitlines()[-1] == f"{stay} fix-1"
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert exit_code(lambda: destroy(path=project, yes=True)) == 0
    found = clones_of(project, os.environ)[0]
    assert capsys.readouterr().err.splitlines()[-1] == f"{stay} {stack_name(found.title, str(found.root))}"


@pytest.mark.parametrize(
    ("policy", "note"),
    [
        (
            "domains: [a.test]\nsettings: {sign_commits: git.key}\n",
            "the policy still needs git.key: agent-sandbox secret list says how to set them again\n",
        ),
        ("domains: [a.test]\n", ""),
        ("domains: [4\n", ""),
    ],
)
@pytest.mark.usefixtures("engine")
def test_secrets_that_the_policy_still_needs_are_named(
    project: Path, capsys: pytest.CaptureFixture[str], policy: str, note: str
) -> None:
    (project / ".devcontainer" / "policy.yaml").write_text(f"version: 1\n{policy}")
    assert exit_code(lambda: destroy(yes=True)) == 0
    assert capsys.readouterr().err.partition("1 volume\n")[2] == note
