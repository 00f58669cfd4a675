"""Branch coverage of some packages by the unit tests of each, measured in the run of all tests."""

import json
import os
import subprocess
import sys
from collections.abc import Generator, Mapping
from functools import _lru_cache_wrapper
from importlib.util import find_spec
from pathlib import Path

import coverage
import pytest

# Where the tests of a package are, and the package.
COVERED = {"tests/unit/policy/": "agent_sandbox.policy", "tests/unit/proxy/": "agent_sandbox.proxy"}
FOLDER = Path(__file__).resolve().parents[2] / "build" / "coverage"
NOT_CODE = ("if TYPE_CHECKING:", r"assert_never\(")
IMPORT_ALL = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
        importlib.import_module(module.name)
"""


class Measuring:
    """A plugin of pytest, for each process that runs tests: records the branches that tests of a package take in it.

    It measures these tests only, which then take twice as long. Tests with the mark `slow` run the same lines many
    times and are left out.
    """

    def __init__(self, worker: str = "", covered: Mapping[str, str] = COVERED, folder: Path = FOLDER) -> None:
        self._covered, self._context, self._before = covered, "", ""
        self._coverage = coverage.Coverage(
            data_file=folder / f"data.{worker}", branch=True, source_pkgs=[*covered.values()], config_file=False
        )
        # A process may run the tests of one package only.
        self._coverage.set_option("run:disable_warnings", ["module-not-measured"])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        context = next((tests for tests in self._covered if item.nodeid.startswith(tests)), "")
        if item.get_closest_marker("slow"):
            context = ""
        before, self._before = self._before, context
        if not context:
            return (yield)
        self._coverage.start()
        if context != self._context:  # a switch writes what was found so far
            self._coverage.switch_context(context)
            self._context = context
        if context != before:
            forget_results(self._covered[context])
        try:
            return (yield)
        finally:
            self._coverage.stop()

    def pytest_sessionfinish(self) -> None:
        self._coverage.save()


class Judging:
    """A plugin of pytest, for the process that prints the results: fails a run that leaves out a branch."""

    def __init__(self, covered: Mapping[str, str] = COVERED, folder: Path = FOLDER) -> None:
        self._covered, self._folder, self._missing = covered, folder, list[str]()
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("data*"):
            old.unlink()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        measure_imports([*self._covered.values()], self._folder / "data.import")
        measured = coverage.Coverage(data_file=self._folder / "data", branch=True, config_file=False)
        for line in NOT_CODE:
            measured.exclude(line)
        measured.combine([str(self._folder)])
        report = self._folder / "report.json"
        for tests, package in self._covered.items():
            files = [f"{folder}/*" for folder in places(package)]
            measured.json_report(outfile=str(report), include=files, contexts=["^$", f"^{tests}$"])
            self._missing += missing(json.loads(report.read_bytes())["files"], tests)
        if self._missing and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._missing:
            terminalreporter.section("not covered", red=True)
            for line in self._missing:
                terminalreporter.write_line(line)


def forget_results(package: str) -> None:
    """Empty the caches of the functions of a package: what other tests have called is called again."""
    for name, module in [*sys.modules.items()]:
        if f"{name}.".startswith(f"{package}."):
            for found in [*vars(module).values()]:
                if isinstance(found, _lru_cache_wrapper):
                    found.cache_clear()


def measure_imports(packages: list[str], data: Path) -> None:
    """Record the lines that run when the modules are imported, which they do once in each process."""
    options = ("--branch", "--rcfile=", f"--source={','.join(packages)}", f"--data-file={data}")
    subprocess.run(
        (sys.executable, "-P", "-m", "coverage", "run", *options, "/dev/stdin", *packages),
        input=IMPORT_ALL.encode(),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )


def places(package: str) -> list[str]:
    """Return the directories of a package."""
    spec = find_spec(package)
    return [*(spec.submodule_search_locations or ())] if spec else []


def missing(files: Mapping[str, Mapping[str, list[list[int]] | list[int]]], tests: str) -> list[str]:
    """Return a line for each file with lines or branches that no test took."""
    found = []
    for name, file in sorted(files.items()):
        branches = (branch[0] for branch in file["missing_branches"] if isinstance(branch, list))
        numbers = sorted({*(line for line in file["missing_lines"] if isinstance(line, int)), *branches})
        if numbers:
            found.append(f"{name}: no test in {tests} covers lines {', '.join(map(str, numbers))}")
    return found
