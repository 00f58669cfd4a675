"""Run a command in the agent container on this terminal, and ask the user about what it wants of the terminal."""

import os
from collections.abc import Callable, Sequence
from functools import partial

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.cli.terminal.tty import at_terminal, session_environment
from agent_sandbox.engines.drivers import load_driver
from agent_sandbox.engines.place import Place, Role
from agent_sandbox.engines.session import run_session
from agent_sandbox.features.copying.transfer import file_to_sandbox
from agent_sandbox.features.session.clipboard.clipboard import clipboard_image
from agent_sandbox.features.session.clipboard.clipboard_filter import ClipboardFilter
from agent_sandbox.features.session.on_terminal.copy_question import CopyQuestion
from agent_sandbox.features.session.on_terminal.image_question import ImageQuestion
from agent_sandbox.features.session.on_terminal.link_question import Browser, LinkQuestion
from agent_sandbox.host.command import Command
from agent_sandbox.host.pty_session import Overlay, PtySession
from agent_sandbox.project.project import Project


class Overlays:
    """Shows the first overlay that has lines. A key goes to the one that was shown, never to the one after it."""

    def __init__(self, overlays: Sequence[Overlay], *, changed: Callable[[], None]) -> None:
        self._overlays, self._changed = overlays, changed
        self._shown: Overlay | None = None

    def lines(self, columns: int) -> Sequence[str]:
        """Return the lines of the shown overlay until it has none; then the program is seen before the next one."""
        if self._shown is not None:
            if lines := self._shown.lines(columns):
                return lines
            self._shown = None
            self._changed()
            return []
        for overlay in self._overlays:
            if lines := overlay.lines(columns):
                self._shown = overlay
                return lines
        return []

    def signal(self) -> bytes:
        """Return what alerts the user to any of them."""
        return b"".join(overlay.signal() for overlay in self._overlays)

    def press(self, key: str) -> None:
        """Pass a key on to the shown overlay."""
        if self._shown is not None:
            self._shown.press(key)


class TerminalSession:
    """One command on this terminal. The first of `overlays` is shown first; `wake` draws them anew, from any thread.

    `agent` is where it runs, by default the project's agent container. With `images`, it gets images that the user
    pastes.
    """

    def __init__(
        self, project: Project, overlays: Sequence[Overlay] = (), *, agent: Place | None = None, images: bool = False
    ) -> None:
        self._agent = agent or Role(project=project, service="agent")
        self._copies = CopyQuestion(project.name, write=self._write)
        self._images = ImageQuestion(
            project.name,
            copy=partial(file_to_sandbox, self._within),
            clipboard=partial(clipboard_image, os.environ, project=project.root),
            changed=self.wake,
        )
        self._links = LinkQuestion(
            project.name,
            browse=Browser(project).open,
            write=self._write,
            rows=lambda: self._session.size[0],
        )
        shown = Overlays((*overlays, self._images, self._links, self._copies), changed=self.wake)
        passed = ClipboardFilter(self._copies.hold, self._links.hold).feed
        self._session = PtySession(shown, passed=passed, typed=self._images.typed if images else bytes)

    def _within(self, argv: tuple[str, ...]) -> Command:
        return load_driver().spawn(self._agent, *argv, stdin=True)

    def _write(self, data: bytes) -> None:
        self._session.write(data)

    def wake(self) -> None:
        """Look at the overlays again."""
        self._session.wake()

    def run(self, *command: str, on_start: Callable[[], None] = lambda: None) -> int:
        """Run the command and return its exit code."""
        tty, env = at_terminal(), session_environment()
        program = partial(run_session, load_driver(), self._agent, *command, tty=tty, env=env)
        code = self._session.run(program, on_start=on_start)
        for what, question in (("not copied:", self._copies), ("not opened:", self._links)):
            if question.unanswered:
                say((what, "warn"), f" {question.unanswered}, and ended before you could answer")
        return code
