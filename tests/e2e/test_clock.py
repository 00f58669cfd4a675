"""The proxy's clock is a year ahead or behind: a preloaded library returns another time than the kernel."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine import proxy_image
from prepared import build_image
from real_stacks import LAB, Project, Projects, trust

IMAGE = "agent-sandbox-test-clock"
RIGHT = "+0"

pytestmark = pytest.mark.nightly


def prepare() -> None:
    build_image(IMAGE, LAB / "clock", proxy_image())


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """A wrong clock, and the certificate errors of the agent (`ours`) and of the proxy (`theirs`)."""

    offset: str
    off: str
    ours: str
    theirs: str


EARLY, LATE = "certificate is not yet valid", "certificate has expired"
AHEAD = Wrong(offset="+365d", off="365 days ahead", ours=EARLY, theirs=LATE)
BEHIND = Wrong(offset="-365d", off="365 days behind", ours=LATE, theirs="certificate is not valid yet")


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the offset of the proxy's clock."""
    folder = tmp_path_factory.mktemp("clock")
    folder.chmod(0o755)
    (folder / "offset").write_text(RIGHT)
    return folder / "offset"


@pytest.fixture(scope="module")
def stack(projects: Projects, clock: Path) -> Project:
    """A stack whose proxy reads its clock offset from that file."""
    project = projects.make("clock", "claude")
    override = json.loads(project.override.read_text())
    proxy = override["services"]["proxy"]
    proxy |= {"image": IMAGE, "volumes": [*proxy["volumes"], f"{clock.parent}:/clock:ro"]}
    project.override.write_text(json.dumps(override))
    project.allow("allowed.test")
    trust(project.path)
    project.sandbox("up")
    return project


@pytest.fixture(autouse=True)
def _right_in_the_end(clock: Path) -> Iterator[None]:
    yield
    clock.write_text(RIGHT)


def restart_proxy(stack: Project) -> None:
    stack.compose("restart", "proxy")
    stack.wait_until_it_answers("http://denied.test/", 403)


def told(stack: Project) -> list[str]:
    """Return the `closed` lines of `status`."""
    lines = stack.sandbox("status").stdout.splitlines()
    return [line.removeprefix("closed  ") for line in lines if line.startswith("closed")]


def assert_well(stack: Project) -> None:
    assert [stack.curl(url)[0] for url in ("https://allowed.test/", "http://denied.test/")] == [200, 403]
    assert told(stack) == []


def assert_closed(stack: Project, wrong: Wrong) -> None:
    """TLS fails on both sides, each side reports why, and denied requests still have their audit record."""
    before = stack.internet.requests("allowed.test")
    code, said = stack.curl("https://allowed.test/")
    assert (code, f"SSL certificate problem: {wrong.ours}" in said) == (0, True), said
    code, said = stack.curl("https://allowed.test/", "--insecure")
    assert (code, f"Reason: the server's {wrong.theirs}; if that is wrong, set the clock" in said) == (502, True), said
    assert stack.internet.requests("allowed.test") == before
    assert stack.curl("http://denied.test/meanwhile")[0] == 403
    time.sleep(0.2)  # lines are written in batches
    *_, last = (line for line in stack.traffic() if line["path"] == "/meanwhile")  # a health check may come after it
    assert last["decision"] == "deny"
    assert f"the proxy's clock is {wrong.off}, so certificates fail: set the clock of the Docker host" in told(stack)


@pytest.mark.parametrize("wrong", [AHEAD, BEHIND], ids=["ahead", "behind"])
def test_tls_fails_while_the_proxys_clock_is_wrong_and_recovers_without_a_restart(
    stack: Project, clock: Path, wrong: Wrong
) -> None:
    assert_well(stack)
    clock.write_text(wrong.offset)
    assert_closed(stack, wrong)
    clock.write_text(RIGHT)
    assert_well(stack)


@pytest.mark.parametrize("wrong", [AHEAD, BEHIND], ids=["ahead", "behind"])
def test_a_proxy_started_with_a_wrong_clock_works_after_a_restart_with_the_right_time(
    stack: Project, clock: Path, wrong: Wrong
) -> None:
    clock.write_text(wrong.offset)
    restart_proxy(stack)
    assert_closed(stack, wrong)
    clock.write_text(RIGHT)
    restart_proxy(stack)
    assert_well(stack)
