import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from agent_sandbox.agents.catalogue import known_agents, load_manifest
from agent_sandbox.cli.framework.errors import exit_code
from agent_sandbox.features.clones import throw_away_clone
from agent_sandbox.features.clones.fetch import one_at_a_time
from agent_sandbox.features.session.commands import run as module
from agent_sandbox.features.session.commands.run import run
from agent_sandbox.features.watch.watching import asking_run
from agent_sandbox.host import attached
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project import owners
from agent_sandbox.project.clone_record import clones_of
from agent_sandbox.project.installed import read_project
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.paths import PATHS
from agent_sandbox.resources import data_root
from agent_sandbox.stack.containers import ENTER
from agent_sandbox.stack.recorded import Owner
from clone_worlds import commit, with_clone_driver
from fake_docker import FakeDocker
from fake_stack import compose_line
from fake_tty import Person
from run_cli import Answer, Ask


@pytest.fixture
def command(project: Path) -> tuple[str, ...]:
    """Return the command of the project's agent, with its arguments for unattended use."""
    manifest = load_manifest(data_root() / "templates", read_project(project).agents[0])
    return manifest.started(asks=False)


def test_runs_the_agents_command_once_the_stack_is_up(
    up_to_date: FakeDocker, command: tuple[str, ...], became: list[str]
) -> None:
    up_to_date.says("ps --all").says("up --detach")
    assert exit_code(lambda: run(["--", "-p", "say hi"])) == 0
    here = Path.cwd()
    assert up_to_date.calls[-1].startswith(f"{compose_line(here)} up --detach ")
    asked = f"exec -T agent {ENTER} {' '.join(command)} -p say hi"
    assert became == [f"docker {compose_line(here)} {asked} in {here}"]


@pytest.mark.parametrize("quiet", [False, True])
def test_reports_files_to_review_when_the_agent_ends_unless_quiet(
    up_to_date: FakeDocker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, quiet: bool
) -> None:
    def write(*_: object, **_options: object) -> int:
        Path("Makefile").write_text("all:\n")
        return 3

    monkeypatch.setattr(attached, "run_attached", write)
    up_to_date.says("ps --all").says("up --detach")
    with pytest.raises(SystemExit, match="3"):
        run([], quiet=quiet)
    line = "review: 1 file that would run outside changed: agent-sandbox review\n"
    assert capsys.readouterr().err.endswith(line) is not quiet


def test_keeps_the_agents_exit_code_if_the_review_fails(
    up_to_date: FakeDocker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_root: Path) -> None:
        raise UserError([Problem(where="x", what="cannot be read")])

    monkeypatch.setattr(attached, "run_attached", lambda *_, **_options: 3)
    monkeypatch.setattr(module, "report_unreviewed", fail)
    up_to_date.says("ps --all").says("up --detach")
    with pytest.raises(SystemExit, match="3"):
        run([])


def test_warns_if_the_agent_can_only_read_the_files(
    up_to_date: FakeDocker, became: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(owners, "belongs_to_root", lambda _root: True)
    monkeypatch.setattr(owners, "owner_of", lambda _root: Owner(uid=1000, gid=1000))
    engine = {"KernelVersion": Path("/proc/sys/kernel/osrelease").read_text().strip(), "SecurityOptions": []}
    up_to_date.says("ps --all").says("up --detach").says("info --format", out=json.dumps(engine))
    assert exit_code(lambda: run([])) == 0
    said = "the files belong to root, but dev inside is 1000:1000: the agent can only read them\n"
    assert capsys.readouterr().err.endswith(
        f"{said}  hint: chown -R 1000:1000 {Path.cwd()}, then agent-sandbox trust, which asks about the new owner\n"
    )
    assert len(became) == 1


def test_runs_no_agent_if_the_stack_does_not_start(
    up_to_date: FakeDocker, became: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    up_to_date.says("ps --all").says("up --detach", err="no space left on device", code=1)
    assert exit_code(run) == 1
    assert (became, "error: " in capsys.readouterr().err) == ([], True)


def test_runs_nothing_if_the_compose_file_is_not_trusted(project: Path, docker: FakeDocker, became: list[str]) -> None:
    file = project / ".devcontainer" / "docker-compose.yml"
    file.write_text(file.read_text().replace("services:", "x-mine: privileged\nservices:"))
    assert exit_code(run) == 1
    assert (docker.calls, became) == ([], [])


def test_dry_run_prints_start_and_agent_command_without_calling_docker(
    project: Path, docker: FakeDocker, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(lambda: run(dry_run=True)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"docker {compose_line(project)} exec -T agent {ENTER} {' '.join(command)}"
    assert " up --detach " in lines[-3]
    assert docker.calls == []


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Start no stack, and return the projects whose stack would start."""
    projects: list[Path] = []

    def start(project: Project, **_: object) -> int:
        projects.append(project.root)
        return 0

    monkeypatch.setattr(module, "start", start)
    monkeypatch.setattr(owners, "belongs_to_root", lambda _root: False)
    return projects


AGENTS = known_agents(data_root() / "templates")
KNOWN = ", ".join(AGENTS)
AFTER_DASHES = "arguments for the agent's command follow `--`\n"
NEEDS_AGENT = (
    f"  hint: agent-sandbox run AGENT, with the same options, makes one and starts it, where AGENT is one of: {KNOWN}"
)


@pytest.mark.parametrize("agent", AGENTS)
def test_makes_and_starts_a_stack_in_a_directory_without_a_stack(
    agent: str, empty_project: Path, started: list[Path], became: list[str], ask: Ask
) -> None:
    answer = ask("run", agent, "--", "-p", "say hi")
    assert (answer.code, answer.out) == (0, "")
    files = PATHS
    assert [line for line in answer.err.splitlines() if line.startswith("written")] == [
        f"written    {file}" for file in files
    ]
    assert started == [empty_project]
    manifest = load_manifest(data_root() / "templates", agent)
    words = " ".join((ENTER, *manifest.started(asks=False), "-p", "say hi"))
    assert became[0].endswith(f" agent {words} in {empty_project}")


def test_a_second_run_writes_nothing_and_needs_no_agent_name(
    empty_project: Path, started: list[Path], became: list[str], ask: Ask
) -> None:
    ask("run", AGENTS[0])
    for words in ((), (AGENTS[0],)):
        assert ask("run", *words).err == ""
    assert (started, len(became)) == ([empty_project] * 3, 3)


@pytest.mark.usefixtures("started")
def test_agent_asks_starts_the_agent_without_unattended_arguments(
    empty_project: Path, became: list[str], ask: Ask
) -> None:
    ask("run", AGENTS[0], "--agent-asks", "--quiet")
    manifest = load_manifest(data_root() / "templates", AGENTS[0])
    assert became[0].endswith(f" {ENTER} {' '.join(manifest.command)} in {empty_project}")


@pytest.mark.usefixtures("started")
def test_ask_runs_the_agent_and_asks_about_requests_on_the_terminal(
    empty_project: Path, became: list[str], ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[Path, tuple[str, ...]]] = []

    def run_asking(project: Project, *command: str) -> int:
        ran.append((project.root, command))
        return 7

    monkeypatch.setattr(asking_run, "run_asking", run_asking)
    monkeypatch.setattr(module, "at_terminal", lambda: True)
    assert ask("run", "claude", "--ask", "--quiet").code == 7
    manifest = load_manifest(data_root() / "templates", "claude")
    assert (ran, became) == ([(empty_project, manifest.started(asks=False))], [])


def test_ask_needs_a_terminal(empty_project: Path, ask: Ask) -> None:
    answer = ask("run", AGENTS[0], "--ask")
    said = (
        "error: --ask: needs a terminal\n"
        "  hint: leave it out, and run `agent-sandbox watch --ask` in a terminal at the same time\n"
    )
    assert (answer.code, answer.err, list(empty_project.iterdir())) == (1, said, [])


@pytest.mark.usefixtures("started")
def test_resume_continues_the_last_session(empty_project: Path, became: list[str], ask: Ask) -> None:
    manifest = load_manifest(data_root() / "templates", AGENTS[0])
    ask("run", AGENTS[0], "--resume", "--quiet")
    assert became[0].endswith(f" {ENTER} {' '.join(manifest.started(asks=False, resumes=True))} in {empty_project}")
    assert manifest.resume


def test_an_agent_that_cannot_resume_does_not_start(
    empty_project: Path, started: list[Path], ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("init", AGENTS[0])
    manifest = load_manifest(data_root() / "templates", AGENTS[0]).model_copy(update={"resume": ()})
    monkeypatch.setattr(module, "load_manifest", lambda _agent: manifest)
    answer = ask("run", "--resume")
    what = f"error: --resume: {AGENTS[0]} cannot continue its last session\n"
    assert (answer.code, answer.err, started) == (1, what, [])
    assert empty_project.exists()


def test_quiet_prints_nothing(empty_project: Path, started: list[Path], became: list[str], ask: Ask) -> None:
    assert ask("run", AGENTS[0], "-q").err == ""
    assert (started, len(became)) == ([empty_project], 1)


def test_a_directory_without_a_stack_needs_the_name_of_an_agent(empty_project: Path, ask: Ask) -> None:
    for words in ((), ("--", "-p", "hi")):
        assert ask("run", *words).err == (f"error: {empty_project}: no stack in this directory\n{NEEDS_AGENT}\n")
    assert list(empty_project.iterdir()) == []


@pytest.fixture
def first_run(
    empty_project: Path, started: list[Path], monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> Callable[[str, tuple[str, ...]], Answer]:
    """Return a function that starts `run` at a terminal with this input and these installed programs."""
    assert started == []

    def run_first(typed: str, installed: tuple[str, ...]) -> Answer:
        (empty_project.parent / "bin").mkdir()
        for program in installed:
            (empty_project.parent / "bin" / program).touch(mode=0o755)
        monkeypatch.setenv("PATH", str(empty_project.parent / "bin"))
        monkeypatch.setenv("COLUMNS", "1000")
        monkeypatch.setattr(sys, "stdin", Person(typed))
        monkeypatch.setattr(module, "at_terminal", lambda: True)
        return ask("run", "--quiet")

    return run_first


@pytest.mark.parametrize(
    ("typed", "installed", "usual", "chosen"),
    [
        ("codex\n", (), "", "codex"),
        ("\n", ("claude",), " [claude]", "claude"),
        ("codex\n", ("claude",), " [claude]", "codex"),
        ("\n", ("codex", "claude"), " [claude]", "claude"),
        ("2\n", ("codex",), " [codex]", AGENTS[1]),
    ],
)
def test_the_first_run_asks_for_an_agent_and_proposes_the_first_that_is_installed(  # noqa: PLR0917 - a row of a table
    first_run: Callable[[str, tuple[str, ...]], Answer],
    typed: str,
    installed: tuple[str, ...],
    usual: str,
    chosen: str,
    empty_project: Path,
    became: list[str],
) -> None:
    numbered = ", ".join(f"{number} {name}" for number, name in enumerate(AGENTS, start=1))
    asked = (
        f"{empty_project} has no sandbox yet; the agents are: {numbered}\n"
        f"Which agent do you want to run, by number or name?{usual} "
    )
    assert first_run(typed, installed).err == asked
    assert read_project(empty_project).agents == (chosen,)
    assert len(became) == 1


@pytest.mark.parametrize("typed", ["", "\n"])
def test_the_first_run_without_an_answer_writes_nothing(
    first_run: Callable[[str, tuple[str, ...]], Answer], typed: str, empty_project: Path
) -> None:
    answer = first_run(typed, ())
    assert (answer.code, answer.err.splitlines()[-1]) == (1, NEEDS_AGENT)
    assert list(empty_project.iterdir()) == []


POLICY = ".devcontainer/policy.yaml"
PROVIDERS = (
    "OpenCode works with models of several providers: 1 anthropic, 2 openai, 3 openrouter, 4 gemini\n"
    "Which one do you want to use, by number or name? "
)


@pytest.fixture
def at_terminal(
    empty_project: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask, started: list[Path]
) -> Callable[..., Answer]:
    """Return a function that calls `run` at a terminal with this input."""
    assert (started, [*empty_project.iterdir()]) == ([], [])

    def run_typed(typed: str, *words: str) -> Answer:
        monkeypatch.setenv("COLUMNS", "1000")
        monkeypatch.setattr(sys, "stdin", Person(typed))
        monkeypatch.setattr(module, "at_terminal", lambda: True)
        return ask("run", *words)

    return run_typed


@pytest.mark.parametrize(
    ("typed", "chosen"), [("2\n", {"openai"}), ("gemini\n", {"gemini"}), ("\n", set()), ("", set())]
)
def test_run_asks_which_provider_the_agent_is_to_use(
    at_terminal: Callable[..., Answer], typed: str, chosen: set[str], empty_project: Path, became: list[str]
) -> None:
    assert at_terminal(typed, "opencode", "--quiet") == Answer(code=0, out="", err=PROVIDERS)
    services = yaml.safe_load((empty_project / POLICY).read_text())["services"]
    assert {*services} & {"anthropic", "openai", "openrouter", "gemini"} == chosen
    assert len(became) == 1


def test_run_refuses_a_provider_that_the_agent_does_not_have(
    at_terminal: Callable[..., Answer], empty_project: Path
) -> None:
    said = (
        "error: --provider: opencode has no provider `5`\n  hint: use one of: anthropic, openai, openrouter, gemini\n"
    )
    assert at_terminal("5\n", "opencode") == Answer(code=1, out="", err=f"{PROVIDERS}{said}")
    assert list(empty_project.iterdir()) == []


@pytest.mark.usefixtures("became")
def test_run_does_not_ask_for_a_provider_if_an_option_names_it_or_there_is_a_policy(
    at_terminal: Callable[..., Answer], empty_project: Path
) -> None:
    assert at_terminal("2\n", "opencode", "--quiet", "--provider=gemini").err == ""
    assert "  - gemini " in (empty_project / POLICY).read_text()
    shutil.rmtree(empty_project / ".devcontainer")
    (empty_project / ".devcontainer").mkdir()
    (empty_project / POLICY).write_text("version: 1\n")
    assert "by number or name?" not in at_terminal("y\n", "opencode", "--quiet").err


@pytest.mark.usefixtures("started", "became")
def test_run_installs_the_languages_of_its_option_or_those_of_the_files(empty_project: Path, ask: Ask) -> None:
    file = empty_project / ".devcontainer" / "sandbox.yaml"
    for words, packages in ((("--with=rust",), ["cargo"]), ((), ["golang"])):
        (empty_project / "go.mod").touch()
        assert ask("run", "claude", "--quiet", *words).code == 0
        assert yaml.safe_load(file.read_text())["packages"] == packages
        shutil.rmtree(empty_project / ".devcontainer")
        (empty_project / ".env").unlink()
    assert ask("run", "claude", "--quiet", "--no-detect").code == 0
    assert not file.exists()
    assert "  - go" not in (empty_project / POLICY).read_text()


def test_run_refuses_the_options_of_a_new_sandbox_in_an_existing_one(
    empty_project: Path, started: list[Path], ask: Ask
) -> None:
    ask("init", "claude")
    assert ask("run", "--with=go", "--no-detect", "--provider=openai").err == (
        "error: --with, --no-detect and --provider are only for a new sandbox\n"
        "  hint: agent-sandbox init --with LANGUAGES adds languages to this one; its providers are services in "
        ".devcontainer/policy.yaml\n"
    )
    assert (started, (empty_project / ".devcontainer" / "sandbox.yaml").exists()) == ([], False)


def test_a_project_file_without_a_stack_needs_init(empty_project: Path, ask: Ask) -> None:
    (empty_project / ".devcontainer").mkdir()
    (empty_project / ".devcontainer" / "sandbox.yaml").write_text("version: 1\n")
    assert ask("run").err == (
        f"error: {empty_project}: no stack in this directory\n"
        "  hint: agent-sandbox init makes it from .devcontainer/sandbox.yaml; "
        "if that lists no agents, agent-sandbox init AGENT\n"
    )


def test_rejects_another_agent_than_the_stack_runs(empty_project: Path, started: list[Path], ask: Ask) -> None:
    first, second = AGENTS[:2]
    ask("init", first)
    answer = ask("run", second)
    assert (answer.code, started) == (1, [])
    assert answer.err == (
        f"error: {empty_project}: the stack of this project runs {first}, not {second}\n"
        f"  hint: agent-sandbox init {first} {second} adds {second}; agent-sandbox init {second} switches to it; "
        "both keep all state\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("codxe",), f"error: no such agent `codxe`\n  hint: did you mean `codex`? known agents: {KNOWN}\n"),
        (("fix", "--", "x"), f"error: no such agent `fix`\n  hint: known agents: {KNOWN}\n"),
        (
            ("codex", "fix the tests", "--", "-q"),
            f"error: fix the tests: {AFTER_DASHES}  hint: agent-sandbox run codex -- 'fix the tests' -q\n",
        ),
    ],
)
def test_a_word_before_the_dashes_is_an_agent_and_never_a_task(
    up_to_date: FakeDocker, became: list[str], ask: Ask, words: tuple[str, ...], said: str
) -> None:
    answer = ask("run", *words)
    assert (answer.code, answer.err, up_to_date.calls, became) == (1, said, [], [])


def test_a_word_after_the_dashes_is_for_the_agent_even_if_an_agent_has_that_name(
    up_to_date: FakeDocker, command: tuple[str, ...], became: list[str], ask: Ask
) -> None:
    up_to_date.says("ps --all").says("up --detach")
    assert ask("run", "--quiet", "--", "codex", "--", "x").code == 0
    assert f" {' '.join(command)} codex -- x in " in became[0]


def test_does_not_replace_an_invalid_devcontainer_json(empty_project: Path, started: list[Path], ask: Ask) -> None:
    file = empty_project / ".devcontainer" / "devcontainer.json"
    file.parent.mkdir()
    file.write_text("{]")
    answer = ask("run", AGENTS[0])
    assert (answer.code, started, file.read_text()) == (1, [], "{]")
    assert list(file.parent.iterdir()) == [file]


def test_a_dry_run_without_a_stack_writes_nothing(empty_project: Path, ask: Ask) -> None:
    answer = ask("run", AGENTS[0], "--dry-run")
    assert (answer.code, answer.err.splitlines()[0]) == (0, "would write  .devcontainer/docker-compose.yml")
    assert list(empty_project.iterdir()) == []


def test_rm_removes_the_sandbox_and_json_prints_only_the_summary(
    up_to_date: FakeDocker, command: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    up_to_date.says("ps --all").says("network ls").says("volume ls").says("up --detach").says("volume prune")
    up_to_date.says("agent_sandbox.proxy log").says("down --remove-orphans --volumes")
    up_to_date.says(ENTER, out="hi", code=5)
    assert exit_code(lambda: run(["--", "-p", "say hi"], rm=True, json=True, quiet=True)) == 5
    out, err = capfd.readouterr()
    assert (json.loads(out)["result"], err) == ("hi", "")
    words = ("up --detach", f"agent {ENTER} {' '.join(command)} -p say hi", "proxy log", "down --remove-orphans")
    order = [[word in call for call in up_to_date.calls].index(True) for word in words]
    assert order == sorted(order)


def test_rm_removes_a_sandbox_that_does_not_start(up_to_date: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    up_to_date.says("ps --all").says("network ls").says("volume ls").says("volume prune")
    up_to_date.says("up --detach", err="no space left on device", code=1).says("down --remove-orphans --volumes")
    assert exit_code(lambda: run(rm=True, json=True)) == 1
    said = json.loads(capsys.readouterr().out)
    (problem,) = said.pop("problems")
    assert (said, problem["what"]) == ({"exit_code": None}, "no space left on the disk that Docker uses")
    assert "down --remove-orphans --volumes" in up_to_date.calls[-2]


def test_dry_run_with_rm_prints_the_removal_at_the_end(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    assert exit_code(lambda: run(rm=True, json=True, dry_run=True)) == 0
    assert " down --remove-orphans --volumes" in capsys.readouterr().out.splitlines()[-2]
    assert docker.calls == []


def test_options_that_exclude_each_other_are_all_reported(
    project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exists()
    assert exit_code(lambda: run(ask=True, json=True, rm=True, resume=True)) == 1
    assert capsys.readouterr().err == (
        "error: --json: cannot be combined with --ask: it runs without a terminal\n"
        "error: --resume: cannot be combined with --rm: a new sandbox has no session\n"
    )
    assert docker.calls == []


def test_name_needs_the_clone_option(project: Path, docker: FakeDocker, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(lambda: run([], name="fix-1")) == 1
    assert capsys.readouterr().err == "error: --name: names a clone\n  hint: use it with --clone\n"
    assert (project.exists(), docker.calls) == (True, [])


@pytest.mark.parametrize("locked", [False, True])
def test_clone_with_rm_keeps_the_clone_and_exits_with_1_if_fetching_fails(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    *,
    locked: bool,
) -> None:
    driver = with_clone_driver(project, tmp_path_factory.mktemp("clone"), monkeypatch)
    monkeypatch.setattr(throw_away_clone, "backend", lambda: driver.planner)
    monkeypatch.setattr(throw_away_clone, "execute", lambda *_args, **_options: None)
    with ExitStack() as ending:

        def work(*_args: object, **_options: object) -> int:
            commit(driver.folder)
            if locked:
                ending.enter_context(one_at_a_time(clones_of(project, os.environ)[0]))
            return 0

        for name in ("start", "keep_secrets", "keep_ports"):
            monkeypatch.setattr(module, name, lambda *_args, **_options: 0)
        monkeypatch.setattr(module, "attach", work)
        assert exit_code(lambda: run([], clone=True, rm=True)) == locked
    kept = "kept: the clone clone-1 has work that was not fetched\n" in capsys.readouterr().err
    assert (kept, len(clones_of(project, os.environ))) == (locked, locked)


def test_the_agent_starts_in_the_clone(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    driver = with_clone_driver(project, tmp_path_factory.mktemp("clone"), monkeypatch)
    names: list[str] = []

    def note(one: Project, *_command: str, **_options: object) -> int:
        names.append(one.name)
        return 0

    for name in ("start", "keep_secrets", "attach"):
        monkeypatch.setattr(module, name, note)
    assert exit_code(lambda: run([], clone=True, name="fix-1")) == 0
    assert exit_code(lambda: run([], clone=True, name="fix-2", dry_run=True)) == 0
    assert exit_code(lambda: run([], clone=True, name="fix-1", rm=True, dry_run=True)) == 1
    assert len(names) == 3  # start, logins, attach
    assert len({*names}) == 1
    assert names[0].startswith("app-fix-1-")
    assert driver.steps
