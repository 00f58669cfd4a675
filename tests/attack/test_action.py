"""Output of a pull request or an agent that a CI runner would execute as workflow commands."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ACTION: dict[str, Any] = yaml.safe_load((Path(__file__).resolve().parents[2] / "action.yml").read_text("utf-8"))
STEPS: dict[str, dict[str, Any]] = {step["id"]: step for step in ACTION["runs"]["steps"]}
COMMAND = "##[set-output name=summary;]/etc/passwd"
PROGRAM = f"""#!/bin/sh
echo "unknown key '{COMMAND}'"
[ "$4" != "$FAILS" ] || exit 7
"""


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("name", [name for name in STEPS if name != "install"])
def test_action_steps_wrap_their_output_in_stop_commands(name: str, tmp_path: Path, *, fails: bool) -> None:
    program = tmp_path / "agent-sandbox" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM)
    program.chmod(0o755)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    step = STEPS[name]
    first = "trust" if name == "run" else "policy"
    names = dict.fromkeys(step.get("env", {}), "")
    files = {"RUNNER_TEMP": tmp_path, "GITHUB_STEP_SUMMARY": tmp_path / "summary", "GITHUB_OUTPUT": tmp_path / "output"}
    done = subprocess.run(
        [step["shell"], "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env={**os.environ, **names, **{key: str(path) for key, path in files.items()}, "FAILS": first if fails else ""},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    start, *quoted, end = done.stdout.splitlines()
    token = start.removeprefix("::stop-commands::")
    assert (done.returncode, end) == (7 if fails else 0, f"::{token}::")
    assert len(token) == 32
    # The output of `policy diff` is printed only if it succeeds.
    assert any(COMMAND in line for line in quoted) is not (name == "diff" and fails)
