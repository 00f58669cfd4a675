"""Hypothesis profiles, the order of the tests, and the score of the attacks."""

import gc
import os
import signal
import time
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, override

import pytest
from hypothesis import HealthCheck, settings

import branch_cover
import durations
import score
from engine import CommandError
from turns import NIGHTLY, ON_THE_ENGINE, best_for, turn

if TYPE_CHECKING:  # `make test-lowest` runs without it
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

# The parent process may ignore signals, as `nohup` and background jobs do. Programs that the tests start would
# inherit that, and a shell cannot trap what was ignored when it started.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_DFL)

# By default each run tries the same few examples, so a test that fails fails again. HYPOTHESIS_PROFILE=fresh draws new
# ones, HYPOTHESIS_PROFILE=deep many new ones; --hypothesis-seed repeats such a run.
# No database: a run leaves nothing in the checkout, and each found bug becomes an @example.
settings.register_profile("fast", max_examples=25, deadline=None, database=None, derandomize=True)
settings.register_profile("fresh", max_examples=25, deadline=None, database=None, derandomize=False)
settings.register_profile(
    "deep",
    max_examples=1000,
    deadline=None,
    database=None,
    derandomize=False,
    suppress_health_check=[HealthCheck.too_slow],
)
# Output is neither coloured nor wrapped, whatever the environment says.
for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"):
    os.environ.pop(name, None)
# Commands print times in the local zone; the tests expect UTC.
os.environ["TZ"] = "UTC"
time.tzset()
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

# What is imported and collected stays until the end: walking it again and again finds nothing to free. What a test
# makes is little, and Hypothesis asks for the time at each walk.
gc.disable()
gc.set_threshold(10_000)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the durations of a run with several workers, and measure coverage if asked to."""
    worker = getattr(config, "workerinput", {}).get("workerid", "")
    many = config.getoption("numprocesses", None)
    if many and not worker:
        config.pluginmanager.register(durations.Durations())
    if config.getoption("--branches"):
        if not worker:
            config.pluginmanager.register(branch_cover.Judging())
        if worker or not many:
            config.pluginmanager.register(branch_cover.Measuring(worker))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Find what the tests of a file left open while their file is known, not in the middle of another one's."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--attacks` and `--branches`."""
    parser.addoption("--attacks", action="store_true", help="run the tests that attack/rows.yaml names, and no others")
    parser.addoption("--branches", action="store_true", help="fail if unit tests leave out branches of their package")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the tests that use the engine, the longest first, and leave out others than attacks if asked to."""
    items.sort(key=lambda item: turn(item.nodeid.partition("::")[0]))
    for item in items:
        if item.get_closest_marker("docker") and not item.nodeid.startswith(ON_THE_ENGINE):
            raise pytest.UsageError(f"{item.nodeid} is marked docker, but tests/lab/turns.py does not list its file")
    if config.getoption("--attacks"):
        tests = {*score.named()}
        _select(config, items, lambda item: score.is_of_any(tests, _name(item.nodeid)))
    if not NIGHTLY:
        _select(config, items, lambda item: not item.get_closest_marker("nightly"))


def _select(config: pytest.Config, items: list[pytest.Item], wanted: Callable[[pytest.Item], bool]) -> None:
    by_choice: dict[bool, list[pytest.Item]] = {True: [], False: []}
    for item in items:
        by_choice[wanted(item)].append(item)
    items[:] = by_choice[True]
    config.hook.pytest_deselected(items=by_choice[False])


FAILED = pytest.StashKey[CommandError | None]()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # so before the time limit of the test begins
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Build what a test on the engine needs, or wait until it is built."""
    if item.get_closest_marker("docker"):
        from prepared import prepare_item  # noqa: PLC0415 # imports most of the product, which few tests of a unit do

        item.stash[FAILED] = prepare_item(item)
    return (yield)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail if what the test needs could not be built."""
    if failed := item.stash.get(FAILED, None):
        raise failed


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> "LoadScopeScheduling":
    """Give the tests file by file: those that use the engine to all workers but the last, to which the others."""
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 # `make test-lowest` runs without it

    class LastWorkerHasNoEngine(LoadScopeScheduling):  # type: ignore[misc] # untyped
        @override
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("::")[0]

        @override
        def _assign_work_unit(self, node: "WorkerController") -> None:
            is_last = node.gateway.id == f"gw{self.numnodes - 1}"
            self.workqueue.move_to_end(best_for(self.workqueue, on_engine=not is_last), last=False)
            super()._assign_work_unit(node)

    return LastWorkerHasNoEngine(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """If every attack was tried, print the score and write the report."""
    tried = dict(_tried(terminalreporter))
    if all(any(score.is_of(test, name) for name in tried) for test in score.named()):
        rows = score.judge(tried)
        terminalreporter.section("attacks")
        for line in (*score.score(rows), f"report: {score.write_report(rows).relative_to(score.ROOT)}, attack.json"):
            terminalreporter.write_line(line)


def _tried(reporter: pytest.TerminalReporter) -> Iterator[tuple[str, bool]]:
    for outcome in ("passed", "skipped", "xfailed", "xpassed", "failed", "error"):  # the worse ones stand
        for report in reporter.getreports(outcome):
            yield _name(report.nodeid), outcome == "passed"


def _name(nodeid: str) -> str:
    return nodeid.removeprefix("tests/")
