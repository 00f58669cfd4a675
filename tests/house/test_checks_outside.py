"""The hooks for pre-commit and the action for GitHub, run as those programs would run them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from run_cli import Ask, ask, empty_project

__all__ = ["ask", "empty_project"]

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT, RUNS = ((ROOT / "docs" / name).read_text("utf-8") for name in ("policy/ci.md", "ci.md"))
POLICY = Path(".devcontainer/policy.yaml")
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEPS: dict[str, dict[str, Any]] = {step["id"]: step for step in ACTION["runs"]["steps"]}
GOOD = "domains: [a.example]\ntests: [{allow: GET https://a.example/}]\n"
FAULTS = {
    "check": "domainz: []\n",
    "lint": "domains: ['*.pages.dev']\ntests: [{allow: GET https://a.pages.dev/}]\n",
    "test": "domains: [a.example]\ntests: [{deny: GET https://a.example/}]\n",
}


@pytest.fixture
def project(empty_project: Path) -> Path:
    """Change to a project with a valid policy."""
    POLICY.parent.mkdir()
    POLICY.write_text(GOOD)
    return empty_project


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
@pytest.mark.usefixtures("project")
def test_a_pre_commit_hook_accepts_a_valid_policy_and_rejects_a_faulty_policy(hook: dict[str, Any], ask: Ask) -> None:
    program, *argv = shlex.split(hook["entry"])
    fault = FAULTS[hook["id"].removeprefix("policy-")]
    assert (program, hook["language"], hook["pass_filenames"]) == ("agent-sandbox", "python", False)
    assert re.search(hook["files"], str(POLICY))
    assert [ask(*argv).code, ask(*argv, str(POLICY)).code] == [0, 0]
    POLICY.write_text(fault)
    assert [ask(*argv).code, ask(*argv, str(POLICY)).code] == [1, 1]


def run_step(name: str, folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run a step's script as a runner does, with this environment instead of the one that `install` makes."""
    temp = folder.parent / "runner"
    temp.mkdir(exist_ok=True)
    if not (temp / "agent-sandbox").exists():
        (temp / "agent-sandbox").symlink_to(sys.prefix)
    given = {key: str(described.get("default", "")) for key, described in ACTION["inputs"].items()} | inputs
    step = STEPS[name]
    env = {key: given[re.sub(r"\$\{\{ inputs\.(\w+) }}", r"\1", value)] for key, value in step.get("env", {}).items()}
    return subprocess.run(
        [step["shell"], "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env={**os.environ, **env, "RUNNER_TEMP": str(temp), "GITHUB_STEP_SUMMARY": str(temp / "summary")}
        | {"GITHUB_OUTPUT": str(temp / "output")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", FAULTS)
def test_an_action_step_accepts_a_valid_policy_and_rejects_a_faulty_policy(name: str, project: Path) -> None:
    assert run_step(name, project).returncode == 0
    POLICY.rename("other policy.yaml")
    Path("other policy.yaml").write_text(FAULTS[name])
    assert run_step(name, project, policy="other policy.yaml").returncode == 1


def test_the_action_runs_a_cases_file_and_summarises_what_a_change_allows(project: Path) -> None:
    Path("cases.yaml").write_text("- allow: GET https://b.example/\n")
    assert "0 of 1" not in run_step("test", project, cases="cases.yaml").stdout
    assert run_step("test", project, cases="cases.yaml").returncode == 1
    Path("before.yaml").write_text("domains: []\n")
    assert run_step("diff", project, against="before.yaml").returncode == 0
    summary = (project.parent / "runner" / "summary").read_text()
    assert summary.startswith(
        "```diff\nbefore.yaml -> .devcontainer/policy.yaml\nbecomes reachable\n  + any method a.example"
    )


def test_the_action_expands_no_expression_in_a_script() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert [name for name, step in STEPS.items() if "${{" in step["run"]] == []
    assert list(STEPS) == ["install", "check", "lint", "test", "diff", "run"]


def test_the_documents_name_the_existing_hooks_and_inputs() -> None:
    examples = re.findall(r"<!-- example: (\S+) -->\n```yaml\n(.*?)```", DOCUMENT + RUNS, re.DOTALL)
    hooks, workflow, nightly = (yaml.safe_load(text) for _, text in examples)
    assert [hook["id"] for hook in hooks["repos"][0]["hooks"]] == [hook["id"] for hook in HOOKS]
    for job in (workflow["jobs"]["policy"], nightly["jobs"]["agent"]):
        (step,) = (step for step in job["steps"] if "agent-sandbox" in step.get("uses", ""))
        assert set(step["with"]) < set(ACTION["inputs"])
    tables = DOCUMENT + RUNS.partition("| Input |")[2]
    assert re.findall(r"^\| `(\w+)` \|", tables, re.MULTILINE) == list(ACTION["inputs"])


# A fake of the program: it records its arguments, and its agent prints a command of the runner.
PROGRAM = """#!/bin/sh
shift 3
printf '[%s]' "$@" >>"$RUNNER_TEMP/calls"; echo >>"$RUNNER_TEMP/calls"
if [ "$1" = run ]; then echo '{"exit_code": 3}'; echo '::error::from the agent' >&2; exit 3; fi
"""


@pytest.fixture
def runner(empty_project: Path) -> Path:
    """Return the directory of a runner in which the fake program is installed."""
    program = empty_project.parent / "runner" / "agent-sandbox" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM)
    program.chmod(0o755)
    subprocess.run(["git", "init", "--quiet", empty_project], check=True)
    return empty_project.parent / "runner"


def test_the_action_runs_an_agent_whose_output_is_not_taken_for_commands(runner: Path, empty_project: Path) -> None:
    done = run_step(
        "run",
        empty_project,
        prompt="Fix it.\n$(touch x)",
        agent="example",
        arguments="exec\n--long option\n",
        fingerprint="01b6",
        secret="a.key a.test b.test",
        value="hidden",
    )
    assert done.returncode == 3
    assert (runner / "calls").read_text() == (
        "[trust][--yes][01b6]\n"
        "[secret][set][a.key][--host=a.test][--host=b.test][--from][env:VALUE]\n"
        "[run][--rm][--json][example][--][exec][--long option][Fix it.\n$(touch x)]\n"
    )
    stop, start = (line for line in done.stdout.splitlines())
    assert stop == f"::stop-commands::{start.strip(':')}"
    assert len(start) > 30
    summary = Path((runner / "output").read_text().strip().removeprefix("summary="))
    assert summary.read_text() == '{"exit_code": 3}\n'


def test_the_action_runs_without_an_agent_name_and_a_secret(runner: Path, empty_project: Path) -> None:
    assert run_step("run", empty_project, prompt="Fix it.").returncode == 3
    assert (runner / "calls").read_text() == "[trust][--yes][]\n[run][--rm][--json][--][-p][Fix it.]\n"
    assert run_step("run", empty_project, prompt="Fix it.", arguments="").returncode == 3
    assert (runner / "calls").read_text().endswith("[run][--rm][--json][--][Fix it.]\n")


def test_the_action_runs_no_agent_if_a_token_is_in_the_checkout(runner: Path, empty_project: Path) -> None:
    name = "http.https://github.com/.extraheader"
    subprocess.run(["git", "-C", empty_project, "config", name, "AUTHORIZATION: basic abc"], check=True)
    done = run_step("run", empty_project, prompt="Fix it.")
    assert done.returncode == 1
    said = "the agent could read the token in .git/config: use actions/checkout with persist-credentials: false"
    assert done.stdout == f"::error::{said}\n"
    assert not (runner / "calls").exists()
