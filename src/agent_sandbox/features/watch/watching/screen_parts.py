"""What the screen of `watch` shows: stacks, their questions and ports, and the details of one request."""

from collections.abc import Sequence
from typing import override

from msgspec import Struct, field
from rich.text import Text
from textual.containers import VerticalScroll
from textual.widgets import Static

from agent_sandbox.features.proxy.reports import Question, State
from agent_sandbox.features.watch.watching.connection import Connection
from agent_sandbox.features.watch.watching.stack_ports import Inside, PortInside


class Watched(Struct, kw_only=True):
    """One stack on the screen."""

    name: str
    connection: Connection | None = None
    state: State = field(default_factory=State)
    connected: bool = False
    inside: Inside = Inside()


type StackPort = tuple[Watched, PortInside]


class Asked(Struct, frozen=True, kw_only=True):
    """One line of the list of questions: a question, or all of a domain, which then has a `name`."""

    stack: Watched
    name: str
    questions: Sequence[Question]

    @property
    def id(self) -> str:
        """A name that stays the same while the first question is open, and shown alone or in its group."""
        return f"{self.stack.name}/{self.name}/{self.questions[0].id}"

    @property
    def shown(self) -> str:
        """The request or the group, for a message."""
        return f"requests under {self.name}" if self.name else f"{self.questions[0].method} {self.questions[0].url}"

    @property
    def is_open(self) -> bool:
        """Whether any of its questions still waits, alone or in a group."""
        asked = {one.id for one in self.questions}
        return any(one.id in asked for one in self.stack.state.questions)


class Details(VerticalScroll):
    """The details of the selected question or request. Tab selects this part if not all of it fits."""

    text = ""

    @override
    def allow_focus(self) -> bool:
        """Return whether there is anything to scroll."""
        return self.max_scroll_y > 0

    def show(self, text: str) -> None:
        """Show another text from its beginning; the same text stays where it is."""
        if text != self.text:
            self.text = text
            self.query_one(Static).update(Text(text))
            self.scroll_home(animate=False)
