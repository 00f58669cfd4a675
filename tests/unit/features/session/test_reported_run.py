import json
from pathlib import Path

import pytest

from agent_sandbox.features.clones.fetched import Fetched
from agent_sandbox.features.review.changes import save_baseline, take
from agent_sandbox.features.session.reported_run import ReportedRun
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import open_project
from agent_sandbox.project.project import Project
from agent_sandbox.stack.containers import ENTER
from clone_worlds import fetched_clone
from fake_docker import FakeDocker
from log_lines import denied

LINES = [denied("GET https://a.test/", at="09:59:59"), denied("GET https://b.test/"), "not a record"]
ASKED = "agent_sandbox.proxy status"
LOG = "agent_sandbox.proxy log"


@pytest.fixture
def stack(project: Path, docker: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A running stack, whose agent prints, writes a Makefile and fails."""
    docker.says(ASKED, out='{"clock": "2026-01-02T10:00:00.000Z"}')
    docker.says(LOG, out="\n".join(LINES))
    docker.says(f"{ENTER} agent", out="it is done", err="talk", code=7, script=f"echo all: >{project}/Makefile")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return open_project(project, cwd=project)


def test_prints_one_summary_and_returns_the_agents_exit_code(
    stack: Project, docker: FakeDocker, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ReportedRun().run(stack, "example", "agent", "-p", "say hi", before=None) == 7
    out, err = capfd.readouterr()
    found = json.loads(out)
    assert isinstance(found.pop("seconds"), float)
    assert found == {
        "project": "app-1",
        "agent": "example",
        "exit_code": 7,
        "problems": [],
        "result": "it is done",
        "result_truncated": False,
        "requests": {"allowed": 0, "denied": 1},
        "bytes": {"sent": 0, "received": 0},
        "denials": [{"request": "GET https://b.test/", "reason": "because", "count": 1}],
        "review": {
            "changes": [{"path": "Makefile", "kind": "build", "how": "new", "notes": []}],
            "complete": True,
        },
        "clone": None,
    }
    assert err == "talk"
    (asked,) = (call for call in docker.calls if ENTER in call)
    assert asked.endswith(f" agent {ENTER} agent -p say hi")
    assert " exec -T " in asked


def test_lists_earlier_unreviewed_changes_too(
    stack: Project, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    save_baseline(stack.root, {"XDG_STATE_HOME": str(tmp_path / "state")}, take(stack.root))
    (stack.root / "setup.py").write_text("x")
    ReportedRun().run(stack, "example", "agent", before=None)
    assert [one["path"] for one in json.loads(capfd.readouterr().out)["review"]["changes"]] == ["Makefile", "setup.py"]


def test_counts_from_the_start_of_a_sandbox_made_for_this_run(
    stack: Project, docker: FakeDocker, capfd: pytest.CaptureFixture[str]
) -> None:
    before = take(stack.root)
    (stack.root / "setup.py").write_text("x")  # by the setup script
    ReportedRun().run(stack, "example", "agent", before=before)
    found = json.loads(capfd.readouterr().out)
    assert found["requests"] == {"allowed": 0, "denied": 2}
    assert [one["path"] for one in found["review"]["changes"]] == ["Makefile", "setup.py"]
    assert not any(ASKED in call for call in docker.calls)


def test_fetches_a_clone_after_reading_the_audit_log(
    stack: Project, docker: FakeDocker, capfd: pytest.CaptureFixture[str]
) -> None:
    asked: list[int] = []

    def fetch() -> Fetched:
        asked.append(sum(LOG in call for call in docker.calls))
        return fetched_clone(changed=("a.txt",))

    ReportedRun().run(stack, "example", "agent", before=take(stack.root), fetch=fetch)
    found = json.loads(capfd.readouterr().out)["clone"]
    assert (asked, found["name"], found["kept"]) == ([1], "fix-1", True)


def test_the_summary_lacks_only_the_requests_if_the_proxy_does_not_answer(
    stack: Project, docker: FakeDocker, capfd: pytest.CaptureFixture[str]
) -> None:
    docker.rules.insert(0, f"*'{LOG}'*) echo gone >&2; exit 1 ;;")
    docker.says("nothing")
    assert ReportedRun().run(stack, "example", "agent", before=take(stack.root)) == 7
    out, err = capfd.readouterr()
    assert json.loads(out)["requests"] is None
    assert err.startswith("talkerror: ")


def test_appends_the_summary_to_the_github_step_summary(
    stack: Project, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    (tmp_path / "summary.md").write_text("before\n")
    ReportedRun().run(stack, "example", "agent", before=None)
    assert (tmp_path / "summary.md").read_text().startswith("before\n## example in agent-sandbox\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    assert ReportedRun().run(stack, "example", "agent", before=None) == 7
    assert capfd.readouterr().err.endswith(f"note: GITHUB_STEP_SUMMARY={tmp_path} cannot be written: is a directory\n")


@pytest.mark.parametrize(
    ("error", "problems"),
    [
        (
            UserError([Problem(where="app-1", what="cannot start", hint="free disk space")]),
            [{"where": "app-1", "what": "cannot start", "hint": "free disk space"}],
        ),
        (KeyboardInterrupt(), [{"where": "", "what": "interrupted", "hint": ""}]),
        (KeyError("x"), [{"where": "", "what": "KeyError: 'x'", "hint": ""}]),
        (None, [{"where": "", "what": "the sandbox did not start: see what was printed above", "hint": ""}]),
    ],
)
def test_a_run_that_ends_before_its_summary_prints_its_problems_as_json(
    capsys: pytest.CaptureFixture[str], error: BaseException | None, problems: list[dict[str, str]]
) -> None:
    def fail() -> None:
        with ReportedRun():
            if error:
                raise error

    if error:
        with pytest.raises(type(error)):
            fail()
    else:
        fail()
    assert json.loads(capsys.readouterr().out) == {"exit_code": None, "problems": problems}
