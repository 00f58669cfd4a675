"""People who answer questions of a real stack: in `agent-sandbox watch` on a terminal, and in `agent-sandbox ui`."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_sandbox.features.watch.watching.connection import SETTLE_SECONDS
from chromium import Chromium
from real_stacks import Project
from tmux import Tmux

PROGRAM = (sys.executable, "-P", "-m", "agent_sandbox")
HEADLINE = "document.querySelector('#question-list h3')?.textContent === 'GET {url}'"


def read_first() -> None:
    """Wait as a person does who reads the question: an answer to what has just appeared is not taken."""
    time.sleep(SETTLE_SECONDS + 0.3)


@contextmanager
def watching(project: Project) -> Iterator[Tmux]:
    """A person at `watch --ask`, who leaves with `q`."""
    with Tmux((*PROGRAM, "watch", "--ask"), project.path) as screen:
        screen.until("these requests wait for you: unlisted")
        yield screen
        screen.type("q")
        screen.until("Pane is dead (status 0")


def sees(screen: Tmux, url: str) -> None:
    """Wait until the question about a GET is on the screen, and read it."""
    screen.until(f"? GET {url}")
    read_first()


@contextmanager
def on_page(project: Project, program: str, folder: Path) -> Iterator[Chromium]:
    """A person with the page of `ui --ask` in a browser, who ends the page with Ctrl-C."""
    argv = (*PROGRAM, "ui", "--ask")
    with subprocess.Popen(argv, cwd=project.path, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as page:
        assert page.stdout
        try:
            with Chromium(program, folder) as browser:
                browser.open(page.stdout.readline().strip())
                browser.until("document.getElementById('asking').textContent === 'asks about: unlisted'")
                yield browser
        finally:
            page.send_signal(signal.SIGINT)
            code = page.wait(30)
        assert code == 130


def sees_on_page(browser: Chromium, url: str) -> None:
    """Wait until the question about a GET is on the page, and read it."""
    browser.until(HEADLINE.format(url=url))
    read_first()


def answers_on_page(browser: Chromium, url: str, key: str) -> None:
    """Press a key for the question about a GET that was read; again if that came too soon after something changed."""
    for _ in range(5):
        browser.press(key)
        with suppress(AssertionError):
            browser.until(f"!({HEADLINE.format(url=url)})", seconds=2)
            return
        read_first()
    raise AssertionError(f"the key {key} never counted")


def answers(screen: Tmux, url: str, key: str) -> None:
    """Press a key for the question about a GET that was read; again if that came too soon after something changed."""
    for _ in range(5):
        screen.type(key)
        read_first()
        if f"? GET {url}" not in screen.screen():
            return
    raise AssertionError(f"the key {key} never counted")
