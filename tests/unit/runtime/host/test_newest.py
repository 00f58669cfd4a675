import json
import os
from pathlib import Path

import pytest

from agent_sandbox.agents.manifest import NpmPackage
from agent_sandbox.agents.pin import Pin
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.host.newest import NO_ANSWER_HINT, NO_NPM, NO_NPM_HINT, asking_npm, newest
from agent_sandbox.runtime.host.process import TIMED_OUT, Finished
from table_tests import each

PACKAGE = NpmPackage(package="@x/agent", version="1.0.0")
HASH = f"sha512-{'A' * 86}=="
ANSWER = {"name": "@x/agent", "version": "1.1.0", "dist.integrity": HASH}


def answer(out: str = "", *, code: int = 0, err: str = "") -> Finished:
    return Finished(argv=("npm",), code=code, out=out, err=err)


def problem(found: Finished | None) -> Problem:
    with pytest.raises(UserError) as raised:
        newest("mine", PACKAGE, lambda _: found)
    (one,) = raised.value.problems
    return one


def test_runs_npm_in_the_root_directory_with_the_given_variables(tmp_path: Path) -> None:
    npm = tmp_path / "npm"
    npm.write_text(f"#!/bin/sh\necho \"$PWD $NODE_OPTIONS $*\" >{tmp_path}/asked\nprintf %s '{json.dumps(ANSWER)}'\n")
    npm.chmod(0o755)
    ask = asking_npm({"PATH": f"{tmp_path}:{os.environ['PATH']}", "NODE_OPTIONS": "none"})
    assert newest("mine", PACKAGE, ask) == Pin(version="1.1.0", integrity=HASH)
    asked = (tmp_path / "asked").read_text()
    assert asked == "/ none view @x/agent@latest name version dist.integrity --json\n"


def test_reports_that_npm_is_missing(tmp_path: Path) -> None:
    ask = asking_npm({"PATH": str(tmp_path)})
    assert problem(ask(PACKAGE)) == Problem(where="mine", what=NO_NPM, hint=NO_NPM_HINT)


@each(
    ("err", "why"),
    [
        ("npm ERR! code ENOTFOUND\nnpm ERR! a long story\n", "ENOTFOUND"),
        ("npm error code E404\n", "E404"),
        ("npm error code \x1b[31m\n", "\\x1b[31m"),
        ("killed\n", "exit code 1"),
    ],
)
def test_reports_why_the_npm_lookup_failed(err: str, why: str) -> None:
    what = f"npm cannot look up @x/agent: {why}"
    assert problem(answer(code=1, err=err)) == Problem(where="mine", what=what, hint=NO_ANSWER_HINT)


def test_reports_that_npm_did_not_answer_in_time() -> None:
    said = problem(answer(code=TIMED_OUT, err="no answer within 60 seconds"))
    what = "npm cannot look up @x/agent: no answer within 60 seconds"
    assert said == Problem(where="mine", what=what, hint=NO_ANSWER_HINT)


@each(
    "out",
    [
        "",
        "[]",
        "null",
        "[1]",
        json.dumps({**ANSWER, "version": "latest"}),
        json.dumps({**ANSWER, "version": "1.1.0 && x"}),
        json.dumps({**ANSWER, "version": "1.1.0\n"}),
        json.dumps({**ANSWER, "name": "@x/other"}),
        json.dumps({**ANSWER, "dist.integrity": "sha1-AAAA"}),
        json.dumps({"name": "@x/agent", "version": "1.1.0"}),
    ],
)
def test_rejects_an_answer_without_a_valid_name_version_and_sha512_hash(out: str) -> None:
    what = "npm's answer about @x/agent has no version with a sha512 hash"
    assert problem(answer(out)) == Problem(where="mine", what=what, hint=NO_ANSWER_HINT)
