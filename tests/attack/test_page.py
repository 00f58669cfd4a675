"""The page of `agent-sandbox ui` in a real browser, over a real proxy: the person's work, and what is tried against it."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, override

import pytest

from agent_sandbox.cli.steps.policy.policy_edit import put
from agent_sandbox.cli.steps.ui.rules import Rules
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policytools.edit.short_rule import read_short_rule
from agent_sandbox.runtime.proxy.control import ask_socket
from answering import nobody_answers
from chromium import PROGRAM, Chromium
from page_stand import PageStand, SocketConnection, open_state, question, record
from proxy_pair import Pair, start_pair
from proxy_stand import get
from watching import Answers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium here: scripts/engine installs it")

HOSTS = tuple(f"h{number}.example{number}.test" for number in range(9))
POLICY = "version: 1 # mine\ndomains: [allowed.test]\nsettings: {ask: {timeout: 60}}\n"
SETTLED = 0.8
HOSTILE = "/<img src=x onerror=document.title='owned'>\u202e&lt;\x1b[2J" + "a" * 5_000
QUESTIONS = "document.querySelectorAll('#question-list > li').length"
STATUS = "document.getElementById('status').textContent"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """One browser for all tests."""
    with Chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A proxy that asks about hosts that are not listed."""
    folder = tmp_path_factory.mktemp("project") / ".devcontainer"
    folder.mkdir()
    with nobody_answers(), start_pair(folder, POLICY, names=("allowed.test", *HOSTS)) as pair:
        yield pair


@pytest.fixture
def stand(pair: Pair) -> Iterator[PageStand]:
    """The page, connected to that proxy."""
    control = pair.proxy.ready["control"]
    connection = SocketConnection(control)

    def write_rule(rule: str) -> None:
        put(read_short_rule(Effect.ALLOW, [rule]), pair.proxy.policy_file)
        assert ask_socket(connection.path, "reload")["ok"]

    with PageStand(connection, Rules(pair.proxy.folder.parent, write_rule)) as stand, connection.to(stand.feed):
        yield stand


@pytest.fixture
def made_up() -> Iterator[PageStand]:
    """A page with a question and decisions that a test makes up."""
    with PageStand(Answers()) as stand:
        yield stand


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Clients in the sandbox."""
    with ThreadPoolExecutor(4) as pool:
        yield pool


def asks(pool: ThreadPoolExecutor, pair: Pair, host: str, path: str = "/x") -> Future[int]:
    return pool.submit(lambda: get(pair.proxy, f"http://{host}{path}")[0])
