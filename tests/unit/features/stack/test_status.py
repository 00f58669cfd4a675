from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.engines.compose.driver import DRIVER
from agent_sandbox.engines.container import Container
from agent_sandbox.features.stack.status import Ask, Loaded, Status, ask_all, look
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.project import Project
from agent_sandbox.stack.recorded import Owner
from fake_docker import FakeDocker
from fake_stack import with_containers

PROJECT = Project(root=Path("/p"), name="app-1", agents=("example",), owner=Owner(), images=(), files=())
DENIAL = {"decision": "deny", "host": "example.com", "path": "/"}
PROBE = {"decision": "deny", "event": "health"}


def invalid() -> str:
    raise UserError([Problem(where="policy.yaml:1:1", what="wrong")])


def ask(_: Container, argv: tuple[str, ...]) -> Mapping[str, Any]:
    assert argv == ("status", "--denials", "200")
    return {"policy": {"digest": "abc"}, "denials": [DENIAL, PROBE, *[DENIAL] * 6]}


def silent(_: Container, argv: tuple[str, ...]) -> Mapping[str, Any]:
    raise UserError([Problem(where=argv[0], what="no answer")])


def seen(ask: Ask, *, digest: Callable[[], str]) -> Status:
    """Return the status of a stack whose proxy answers as `ask` does."""
    with ThreadPoolExecutor() as pool:
        return look(PROJECT, answers=lambda: ask_all(pool, DRIVER, PROJECT, ask=ask), digest=digest)


@pytest.fixture
def up(docker: FakeDocker) -> FakeDocker:
    """A running proxy."""
    return with_containers(docker, proxy="running")


def test_the_policy_is_current_when_both_digests_agree(up: FakeDocker) -> None:
    assert up.rules
    assert seen(ask, digest=lambda: "abc").loaded is Loaded.CURRENT
    assert seen(ask, digest=lambda: "abd").loaded is Loaded.EDITED


def test_reports_the_problems_of_an_invalid_policy(up: FakeDocker) -> None:
    assert up.rules
    found = seen(ask, digest=invalid)
    assert (found.loaded, found.problems) == (Loaded.KEPT, (Problem(where="policy.yaml:1:1", what="wrong"),))


def test_reports_denying_if_the_proxy_was_started_with_an_invalid_policy(up: FakeDocker) -> None:
    assert up.rules
    found = seen(lambda *_: {"policy": {"digest": "0", "valid": False}}, digest=invalid)
    assert found.loaded is Loaded.DENYING


def test_reports_an_invalid_policy_if_no_proxy_runs(docker: FakeDocker) -> None:
    docker.says("ps --all")
    assert seen(silent, digest=invalid).loaded is Loaded.INVALID


def test_reports_refused_if_the_proxy_rejects_a_policy_that_is_valid_here(up: FakeDocker) -> None:
    assert up.rules
    found = seen(lambda *_: {"policy": {"digest": "0", "valid": False}}, digest=lambda: "abc")
    assert found.loaded is Loaded.REFUSED


def test_leaves_health_checks_out_of_the_last_denials(up: FakeDocker) -> None:
    assert up.rules
    assert seen(ask, digest=lambda: "abc").denials == (DENIAL,) * 5


def test_counts_denials_that_no_rule_can_allow_instead_of_listing_them(up: FakeDocker) -> None:
    assert up.rules
    hosts = ("agent-sandbox.invalid", "198.51.100.1", "127.0.0.1", "", 7)
    lines = [DENIAL, *({**DENIAL, "host": host} for host in hosts)]
    found = seen(lambda *_: {"denials": lines}, digest=lambda: "abc")
    assert (found.denials, found.unopened) == ((DENIAL,), 5)


def test_a_proxy_of_an_earlier_version_is_asked_twice(up: FakeDocker) -> None:
    answers: dict[tuple[str, ...], dict[str, Any]] = {
        ("status",): {"policy": {"digest": "abc"}},
        ("denials", "--count", "200"): {"denials": [DENIAL]},
    }
    assert up.rules
    found = seen(lambda proxy, argv: answers.get(argv) or silent(proxy, argv), digest=lambda: "abc")
    assert (found.loaded, found.denials) == (Loaded.CURRENT, (DENIAL,))


def test_reports_unknown_if_the_proxy_does_not_answer(up: FakeDocker) -> None:
    assert up.rules
    found = seen(silent, digest=lambda: "abc")
    assert (found.loaded, found.denials) == (Loaded.UNKNOWN, ())


def test_a_stack_that_is_down_has_no_containers_and_no_loaded_policy(docker: FakeDocker) -> None:
    docker.says("ps --all")
    found = seen(silent, digest=lambda: "abc")
    assert (found.containers, found.loaded, found.loaded_digest) == ((), Loaded.UNKNOWN, "")
