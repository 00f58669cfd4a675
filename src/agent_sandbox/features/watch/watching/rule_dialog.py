"""The dialog on the screen of `watch` that shows a rule as a diff, and asks whether to add it."""

from typing import ClassVar, override

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from agent_sandbox.features.watch.watching.rules import Change
from agent_sandbox.printable import printable


class RuleDialog(ModalScreen[bool]):
    """Ends with true if the user agrees to add the rule to the project's policy."""

    CSS = """
    RuleDialog { align: center middle; }
    RuleDialog VerticalScroll { width: 90%; height: auto; max-height: 80%; padding: 0 1; }
    RuleDialog VerticalScroll { border: solid $primary; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "add and reload"),
        Binding("n,escape", "dismiss(False)", "cancel"),
    ]

    def __init__(self, change: Change) -> None:
        super().__init__()
        self._change = change

    @override
    def compose(self) -> ComposeResult:
        """Yield the rule with what to know about it, and the keys."""
        change = self._change
        lines = [f"add {change.rule}", *(f"careful: {warning}" for warning in change.warnings)]
        if change.services:
            lines.append(f"allowed by the service {', or '.join(change.services)}")
        shown = [*map(printable, (*lines, "", *change.diff.splitlines()))]
        yield VerticalScroll(Static(Text("\n".join(shown))))
        yield Footer(show_command_palette=False, compact=True)
