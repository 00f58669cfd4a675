"""No Python that we start imports anything from the current directory, which may be a stranger's checkout."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from table_tests import each

ROOT = Path(__file__).resolve().parents[2]
# Words of a command line, whether in a shell, a Dockerfile, YAML, JSON, Markdown or a tuple of Python.
BETWEEN = re.compile(r"""[\s"'`,()\[\]*]+""")
RUNS_MODULE = re.compile(r"-(?P<flags>[A-Za-z]{0,2})m")
PYTHON = re.compile(r"(?:.*/)?python[0-9.]*|sys\.executable")
RUNS_TEXT = {"-c", "-"}
# The label of a benchmark, and the columns of a table.
HARMLESS = {"pass", "-"}
ISOLATED = {"-P", "-I"}
# Programs with a `-m` of their own: git, GNU install, iptables, setfacl, pytest and coverage.
OTHERS = {"commit", "commit-tree", "install", "-A", "PROJECT_egress", "-R", "pytest", "coverage"}
WITHIN = 8
# Our own tests start `python -c` in temporary folders.
OWN = ("tests/",)
# This file contains such calls as examples; an earlier release wrote the other files.
EXEMPT = ("tests/house/test_isolated_python.py", "tests/e2e/earlier_release/")


def bare(text: str, *, checkouts: bool = True) -> Iterator[str]:
    """Yield each call of Python in the text that would import from the current directory."""
    words = BETWEEN.split(text)
    for number, (before, word) in enumerate(pairwise(words), start=1):
        runs_module = RUNS_MODULE.fullmatch(word)
        if runs_module and before not in ISOLATED and not {*runs_module["flags"]} & {"P", "I"}:
            if OTHERS.isdisjoint(words[max(0, number - WITHIN) : number]):
                yield " ".join(words[number - 1 : number + 2])
        elif checkouts and word in RUNS_TEXT and PYTHON.fullmatch(before) and words[number + 1] not in HARMLESS:
            yield " ".join(words[number - 1 : number + 2])


def tracked() -> Iterator[tuple[str, str]]:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in names.split("\0"):
        if name and not name.startswith(EXEMPT):
            try:
                yield name, (ROOT / name).read_text("utf-8")
            except (UnicodeDecodeError, OSError):  # binary, or deleted and not yet committed
                continue


def test_no_tracked_file_starts_python_without_isolating_it() -> None:
    found = {name: calls for name, text in tracked() if (calls := list(bare(text, checkouts=not name.startswith(OWN))))}
    assert found == {}


BARE = {
    'run((sys.executable, "-m", "agent_sandbox.proxy"))': ["sys.executable -m agent_sandbox.proxy"],
    '(\n    sys.executable,\n    "-m",\n    "x",\n)': ["sys.executable -m x"],
    '(*python, "-m", "pip")': ["python -m pip"],
    "CMD [python3, '-m', x]": ["python3 -m x"],
    "$ python3 -m venv .venv": ["python3 -m venv"],
    "`python3.12 -um x`": ["python3.12 -um x"],
    "/opt/bin/python -c 'import x'": ["/opt/bin/python -c import"],
    "docker run IMAGE python3 - <x.py": ["python3 - <x.py"],
}
FINE = (
    'run((sys.executable, "-P", "-m", "agent_sandbox"))',
    "python3 -I -m venv .venv",
    "python3 -Im venv .venv",
    "python3 -I -c 'import x'",
    "python3 -I - <x.py",
    "git commit --quiet -m x",
    "install -d -o user -m 0755 x",
    "-A INPUT -s x -m conntrack",
    'pytest -m "not docker"',
    "find / -perm 0 -item -inform",
)


@each("text, expected", [*BARE.items(), *((text, []) for text in FINE)])
def test_finds_python_calls_without_isolation_in_every_spelling(text: str, expected: list[str]) -> None:
    assert list(bare(text)) == expected


# Modules that a stranger could plant: names of ours, of our dependencies, and of modules that Python itself imports.
PLANTED = (
    *("agent_sandbox", "yaml", "h2", "pydantic", "mitmproxy", "typer"),
    *("venv", "pip", "ensurepip", "sitecustomize", "usercustomize", "json", "argparse", "runpy", "encodings"),
)
PROXY = ("proxy", "run", "--policy", "p.yaml", "--listen", "nowhere", "--state", "state")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A checkout in which each import would leave a file behind."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in PLANTED:
        (folder / name).mkdir()
        text = f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r} + '\\n')\nraise SystemExit('planted')\n"
        (folder / name / "__init__.py").write_text(text)
        (folder / f"{name}.py").write_text(text)
    return folder


def run_in(folder: Path, argv: Sequence[str | Path], **environ: str) -> subprocess.CompletedProcess[str]:
    home = folder.parent / "home"
    env = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home), "XDG_CACHE_HOME": str(home), **environ}
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=600)


def ran(folder: Path) -> list[str]:
    trace = folder.parent / "ran"
    return trace.read_text().split() if trace.exists() else []


def test_a_call_without_isolation_imports_a_planted_module(hostile: Path) -> None:
    run_in(hostile, [sys.executable, "-m", "venv"])  # proves that the next tests would notice an import
    assert ran(hostile) != []


def test_no_command_imports_modules_from_the_current_directory(hostile: Path) -> None:
    program = Path(sys.prefix) / "bin" / "agent-sandbox"
    commands = (PROXY, ("policy", "services", "resolve", "python"), ("init", "claude"), ("policy", "check"))
    said = [run_in(hostile, [program, *argv]) for argv in commands]
    assert ran(hostile) == []
    assert said[0].stderr.splitlines()[-1] == "--listen nowhere: not ADDR:PORT; such as 127.0.0.1:8080"


ACTION = {step["id"]: step for step in yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["runs"]["steps"]}


def test_the_action_imports_nothing_from_a_pull_request(hostile: Path) -> None:
    temp, action = hostile.parent / "runner", hostile.parent / "action"
    temp.mkdir()
    # Without a network, pip can't install the action; it fails after it has been started.
    given = {"RUNNER_TEMP": str(temp), "GITHUB_ACTION_PATH": str(action), "PYTHONPATH": ".", "PIP_NO_INDEX": "1"}
    step = (ACTION["install"]["shell"], "--noprofile", "--norc", "-eo", "pipefail", "-c")
    install = run_in(hostile, [*step, ACTION["install"]["run"]], **given)
    assert (temp / "agent-sandbox" / "bin" / "python").exists(), install.stderr
    assert "action' should point to a setup.py" in install.stderr or "Invalid requirement" in install.stderr
    assert ran(hostile) == []
    shutil.rmtree(temp / "agent-sandbox")
    (temp / "agent-sandbox").symlink_to(sys.prefix)
    for name in ("check", "lint", "test", "diff"):
        run_in(hostile, [*step, ACTION[name]["run"]], **given, POLICY="p.yaml", CASES="", AGAINST="b.yaml")
    assert ran(hostile) == []
