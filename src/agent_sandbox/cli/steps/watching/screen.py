"""The screen of `watch`: open questions on top, requests as they are decided below, keys to answer.

All texts of the sandbox are shown as they are, never as Textual's markup.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from agent_sandbox.cli.steps.policy.layer_rule import RuleLayer
from agent_sandbox.cli.steps.watching.backlog import Backlog
from agent_sandbox.cli.steps.watching.connection import LAYERS, SETTLE_SECONDS, Connection
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.proxy.decisions import asked, is_probe, local_time, why
from agent_sandbox.runtime.proxy.reports import Dropped, Question, Reply, Report, State, groups

if TYPE_CHECKING:
    from textual.widgets.data_table import RowKey

RULES_WAIT = "only requests of rules with `ask: true` wait"
KEPT = 1_000  # requests
# Requests are shown at intervals, and the last ones alone: each takes milliseconds, and nobody reads a flood.
SHOWN_SECONDS = 0.2
AT_ONCE = 40
MISSED_SECONDS = 5.0  # between two notes about those that were not shown
STYLES = {"allow": "green", "deny": "bold red"}
HINTED = "bold yellow"


class WatchScreen(App[None]):
    """Shows the reports of one connection. `report` and `lost` may be called from another thread."""

    TITLE = "agent-sandbox watch"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #title { height: 1; text-style: bold; }
    #questions { max-height: 8; border: none; padding: 0; }
    #questions.empty, #filter.empty { display: none; }
    #details { height: auto; max-height: 6; }
    #requests { height: 1fr; }
    #filter { border: none; height: 1; padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "answer('once')", "once"),
        Binding("h", "answer('hour')", "hour"),
        Binding("s", "answer('stop')", "stop"),
        Binding("p", "rule('p')", "project"),
        Binding("u", "rule('u')", "you"),
        Binding("d", "answer('deny')", "deny"),
        Binding("slash", "filter", "filter"),
        Binding("space", "pause", "pause", show=False),
        Binding("g", "grants", "grants"),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.connection: Connection | None = None
        self._stack_name = name
        self._clock = clock
        self._state = State()
        self._selected: int | None = None
        self._moved = clock()
        self._records: deque[Mapping[str, Any]] = deque(maxlen=KEPT)
        self._rows: dict[RowKey, Mapping[str, Any]] = {}
        self._record_details = ""
        self._paused = False
        self._new = Backlog[Mapping[str, Any]](AT_ONCE)
        self._missed, self._quiet_until = 0, 0.0

    async def on_mount(self) -> None:
        """Make the parts of the screen, from top to bottom."""
        await self.mount(
            Static(Text(self._stack_name), id="title"),
            OptionList(id="questions", classes="empty"),
            Static("", id="details"),
            Input(placeholder="part of a request; Enter keeps it, Escape clears it", id="filter", classes="empty"),
            DataTable(id="requests", cursor_type="row", show_header=False, zebra_stripes=False),
            Footer(show_command_palette=False),
        )
        self._table.add_columns("time", "effect", "request", "reason")
        self._table.focus()
        self.set_interval(SHOWN_SECONDS, self.show_new)

    @property
    def _table(self) -> DataTable[Text]:
        return self.query_one("#requests", DataTable)

    @property
    def _list(self) -> OptionList:
        return self.query_one("#questions", OptionList)

    def report(self, found: Report) -> None:
        """Show what the connection reports: questions at once, requests at the next interval."""
        match found:
            case State() | Reply():
                self.call_from_thread(self.show, found)
            case Dropped(count=count):
                self._new.miss(count)
            case _ if not is_probe(found):
                self._new.add(found)

    def lost(self, why: str) -> None:
        """Show that the connection is gone; the questions mean nothing to a new proxy."""
        self.call_from_thread(self._lost, why)

    def _lost(self, why: str) -> None:
        self.show(State())
        self._say(why)

    def show(self, found: State | Reply) -> None:
        """Show a report, in the thread of the screen."""
        match found:
            case State():
                self._show_state(found)
            case Reply(error=error):
                self._say(f"not done: {error}" if error else "done")

    def show_new(self) -> None:
        """Show the requests that came since the last time, and say now and then how many are not shown."""
        new, missed = self._new.take()
        for record in new:
            self._records.append(record)
            if not self._paused:
                self._add(record)
        self._missed += missed
        if self._missed and self._clock() >= self._quiet_until:
            self._say(f"{self._missed} decisions came too fast; agent-sandbox proxy logs has them")
            self._missed, self._quiet_until = 0, self._clock() + MISSED_SECONDS

    def _say(self, text: str) -> None:
        self.notify(text, timeout=5, markup=False)

    def _show_state(self, state: State) -> None:
        self._state = state
        waits = f"these requests wait for you: {state.ask}" if state.ask else RULES_WAIT
        counts = f"{len(state.questions)} open, {len(state.grants)} granted"
        self.query_one("#title", Static).update(Text(f"{self._stack_name}  {waits}  {counts}"))
        options = [Option(_line(name, several), id=str(several[0].id)) for name, several in groups(state.questions)]
        self._list.clear_options()
        self._list.add_options(options)
        self._list.set_class(not options, "empty")
        if self.focused is not self.query_one("#filter"):
            (self._list if options else self._table).focus()
        ids = [option.id for option in options]
        if str(self._selected) in ids:
            self._list.highlighted = ids.index(str(self._selected))
        elif options:
            self._list.highlighted = 0
            self._select(int(options[0].id or 0))
        else:
            self._select(None)
        self._show_details()

    def _select(self, number: int | None) -> None:
        if number != self._selected:
            self._selected, self._moved = number, self._clock()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show the details of another question."""
        self._select(int(event.option.id or 0))
        self._show_details()

    def _group(self) -> tuple[str, list[Question]]:
        """Return the selected question, or all questions of the selected domain, with its name."""
        found = (group for group in groups(self._state.questions) if group[1][0].id == self._selected)
        name, several = next(found, ("", ()))
        return name, list(several)

    def _show_details(self) -> None:
        name, several = self._group()
        details = self.query_one("#details", Static)
        if not several:
            details.update(Text(self._record_details))
            return
        if name:
            hosts = ", ".join(sorted({one.host for one in several}))
            details.update(Text(f"{hosts[:300]}\nd denies them all; they cannot be allowed at once"))
            return
        (one,) = several
        service = f"allowed by the service {', or '.join(one.services)}" if one.services else ""
        lasting = f"for longer than once: {one.rule}" if one.rule else "no rule can express this: allow once, or deny"
        lines = (one.details and f"with {one.details}", one.reason, service, lasting)
        details.update(Text("\n".join(filter(None, lines))))

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Show the details of a request, while no question is open."""
        record = self._rows.get(event.row_key, {})
        numbers = (f"{name} {record[name]}" for name in ("rule", "status", "bytes_out", "bytes_in") if record.get(name))
        self._record_details = "\n".join(filter(None, (why(record), ", ".join(numbers))))
        self._show_details()

    def action_answer(self, word: str) -> None:
        """Answer the selected question, or deny all of a group."""
        name, several = self._answerable(word)
        for question in several:
            self._try(partial(self._send, question.id, word))
        if name and several:
            self._say(f"denied {len(several)} requests under {name}")

    def _send(self, number: int, word: str) -> None:
        if self.connection is not None:
            self.connection.answer_for(number, word)

    def _answerable(self, word: str) -> tuple[str, list[Question]]:
        name, several = self._group()
        if several and self._clock() - self._moved < SETTLE_SECONDS:
            self._say("the question has just changed; look again")
            return "", []
        if name and word != "deny":
            self._say("a group can only be denied")
            return "", []
        return name, several

    def action_rule(self, key: str) -> None:
        """Write the rule of the selected question into the policy of the project or the user."""
        _, several = self._answerable("rule")
        for question in several:
            self._try(partial(self._write, question, LAYERS[key]))

    def _write(self, question: Question, layer: RuleLayer) -> None:
        if self.connection is not None:
            self._say(self.connection.allow_quietly(question, layer))

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except UserError as error:
            self._say("\n".join(map(str, error.problems)))

    def action_grants(self) -> None:
        """List the grants in force."""
        lines = [f"{grant.id}  {grant.rule}  by {grant.who}" for grant in self._state.grants]
        self._say("\n".join(lines) or "no grants")

    def action_pause(self) -> None:
        """Stop the list of requests, or let it go on."""
        self._paused = not self._paused
        self._say("paused" if self._paused else "goes on")
        if not self._paused:
            self._show_records()

    def action_filter(self) -> None:
        """Ask for a text that the shown requests contain."""
        field = self.query_one("#filter", Input)
        field.remove_class("empty")
        field.focus()

    def on_input_changed(self, _: Input.Changed) -> None:
        """Show only what contains the text."""
        self._show_records()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go back to the requests, with the filter."""
        event.input.set_class(not event.value, "empty")
        self._table.focus()

    def key_escape(self) -> None:
        """Clear the filter."""
        field = self.query_one("#filter", Input)
        field.value = ""
        field.add_class("empty")
        self._table.focus()

    def _show_records(self) -> None:
        self._table.clear()
        self._rows.clear()
        for record in self._records:
            self._add(record)

    def _add(self, record: Mapping[str, Any]) -> None:
        request, reason = asked(record), why(record)
        if self.query_one("#filter", Input).value.lower() not in f"{request} {reason}".lower():
            return
        effect, mark = str(record.get("decision", "")), "!" if record.get("hint") else ""
        when = local_time(str(record.get("time", "")), shape="%H:%M:%S")
        table = self._table
        if table.row_count >= KEPT:
            oldest = next(iter(table.rows))
            table.remove_row(oldest)
            self._rows.pop(oldest, None)
        row = table.add_row(
            Text(when),
            Text(f"{effect}{mark}", style=HINTED if mark else STYLES.get(effect, "")),
            Text(request[:60]),
            Text(reason[:200]),
        )
        self._rows[row] = record
        table.move_cursor(row=table.row_count - 1)


def _line(name: str, several: Sequence[Question]) -> Text:
    if name:
        return Text(f"? {len({one.host for one in several})} hosts under {name}")
    (one,) = several
    return Text(f"? {one.method} {one.url}")
