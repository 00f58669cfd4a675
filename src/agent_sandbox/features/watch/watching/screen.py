"""The screen of `watch`: open questions on top, requests as they are decided below, keys to answer.

All texts of the sandbox are shown as they are, never as Textual's markup.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, override

from rich.text import Text
from textual.app import App, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.filter import LineFilter, Monochrome
from textual.widgets import DataTable, Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from agent_sandbox.counted import counted
from agent_sandbox.features.policy.layer_rule import RuleLayer
from agent_sandbox.features.ports.forward import Forward
from agent_sandbox.features.proxy.decisions import is_probe
from agent_sandbox.features.proxy.reports import Dropped, Question, Reply, Report, State, groups
from agent_sandbox.features.watch.watching.backlog import Backlog
from agent_sandbox.features.watch.watching.connection import GONE, LAYERS, SETTLE_SECONDS, Connection, rule_for
from agent_sandbox.features.watch.watching.details import question_lines, record_lines
from agent_sandbox.features.watch.watching.policy_line import edit, editor_command, policy_line, suggested_rule
from agent_sandbox.features.watch.watching.request_table import Entry, RequestTable
from agent_sandbox.features.watch.watching.rule_dialog import RuleDialog
from agent_sandbox.features.watch.watching.rules import Change, Rules
from agent_sandbox.features.watch.watching.screen_parts import Asked, Details, StackPort, Watched
from agent_sandbox.features.watch.watching.stack_ports import Inside, PortInside
from agent_sandbox.policytools.edit.insertion import written
from agent_sandbox.printable import printable
from agent_sandbox.problems import Problem, UserError

RULES_WAIT = "you are asked only where a rule has `ask: true`"
ALL = "all"
ALL_LINE = f"    {ALL}"
# Requests are shown at intervals, and the last ones alone: each takes milliseconds, and nobody reads a flood.
SHOWN_SECONDS = 0.2
AT_ONCE = 40
MISSED_SECONDS = 5.0  # between two notes about those that were not shown
NO_TERMINAL = Problem(where="", what="no editor can run on this terminal", hint="open the file elsewhere")
NOTHING_SELECTED = Problem(where="", what="no request is selected")


class WatchScreen(App[None]):
    """Shows the reports of connections, in shades of grey if not in `colours`.

    `report` and `lost` may be called from other threads.
    """

    TITLE = "agent-sandbox watch"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #title { height: 1; text-style: bold; }
    #stacks { width: 26; border: none; border-right: solid $primary; padding: 0; height: 1fr; }
    #questions { max-height: 8; border: none; padding: 0; }
    .empty { display: none; }
    Details { height: auto; max-height: 8; scrollbar-size-vertical: 1; }
    #requests { height: 1fr; }
    #filter { border: none; height: 1; padding: 0; }
    #ports { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "answer('once')", "once"),
        Binding("h", "answer('hour')", "hour"),
        Binding("s", "answer('stop')", "stop"),
        Binding("p", "rule('p')", "project"),
        Binding("u", "rule('u')", "you"),
        Binding("d", "answer('deny')", "deny"),
        Binding("slash", "filter", "filter"),
        Binding("e", "edit", "edit"),
        Binding("c", "copy", "copy"),
        Binding("o", "open_port", "open port", show=False),
        Binding("x", "close_port", "close port", show=False),
        Binding("space", "pause", "pause", show=False),
        Binding("g", "grants", "grants", show=False),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, colours: bool = True) -> None:
        super().__init__()
        self._colours = colours
        self._stacks: dict[str, Watched] = {}
        self._clock = clock
        self._selected = ""
        self._read: Asked | None = None  # the selected question as it was last shown
        self._answered = ""  # the question that was answered here
        self._moved = clock()
        self._only = ""  # the stack whose requests are shown
        self._new = Backlog[Entry](AT_ONCE)
        self._missed, self._quiet_until = 0, 0.0
        self._offered, self._offered_since = 0, clock()  # the port that `o` opens

    @override
    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters of Textual, which knows only `NO_COLOR`, and ours."""
        return [*super().get_line_filters(), *([] if self._colours else [Monochrome()])]

    def add(self, name: str, connection: Connection) -> None:
        """Show one more stack, which then reports. May be called from another thread."""
        self._stacks = {**self._stacks, name: Watched(name=name, connection=connection)}

    async def on_mount(self) -> None:
        """Make the parts of the screen, from top to bottom."""
        await self.mount(
            Static("", id="title"),
            OptionList(id="questions", classes="empty"),
            Details(Static("", id="details")),
            Input(placeholder="part of a request; Enter keeps it, Escape clears it", id="filter", classes="empty"),
            Horizontal(OptionList(id="stacks", classes="empty"), RequestTable()),
            Static("", id="ports", classes="empty"),
            Footer(show_command_palette=False, compact=True),
        )
        self._table.focus()
        self._show_state()
        self.set_interval(SHOWN_SECONDS, self.show_new)

    @property
    def _table(self) -> RequestTable:
        return self.query_one("#requests", RequestTable)

    @property
    def _list(self) -> OptionList:
        return self.query_one("#questions", OptionList)

    @property
    def _details(self) -> Details:
        return self.query_one(Details)

    def report(self, name: str, found: Report) -> None:
        """Show what a connection reports: questions at once, requests at the next interval."""
        match found:
            case State() | Reply():
                self.call_later(self.show, name, found)
            case Dropped(count=count):
                self._new.miss(count)
            case _ if not is_probe(found):
                self._new.add((name, found))

    def begin(self, name: str, records: Sequence[Mapping[str, Any]]) -> None:
        """Show what was decided before the connection, oldest first."""
        self.call_later(self._begin, [(name, record) for record in records if not is_probe(record)])

    def _begin(self, entries: Sequence[Entry]) -> None:
        self._table.take(entries)

    def report_ports(self, name: str, found: Inside) -> None:
        """Show what listens in the sandbox of a stack."""
        self.call_later(self.show_ports, name, found)

    def lost(self, name: str, why: str) -> None:
        """Show that a connection is gone; its questions mean nothing to a new proxy."""
        self.call_later(self._lost, name, why)

    def _lost(self, name: str, why: str) -> None:
        stack = self._stacks[name]
        stack.state, stack.connected = State(), False
        self._read = None  # the message below says why its questions are gone
        self._show_state()
        self._say(why)

    def show(self, name: str, found: State | Reply) -> None:
        """Show a report, in the thread of the screen."""
        match found:
            case State():
                stack = self._stacks[name]
                stack.state, stack.connected = found, True
                self._show_state()
            case Reply(error=error):
                self._say(f"not done: {error}" if error else "done")

    def show_ports(self, name: str, found: Inside) -> None:
        """Show ports in one line: the one that `o` opens first, then the one that `x` closes."""
        self._stacks[name].inside = found
        if found.note:
            self._say(found.note)
        closed, opened = self._ports
        offered = closed[0][1].arrival if closed else 0
        if offered != self._offered:
            self._offered, self._offered_since = offered, self._clock()
        shown = [
            *(f"{self._port_text(*one)} (o opens it)" for one in closed[:1]),
            *(f"{self._port_text(*one)} (open, x closes it)" for one in opened[:1]),
            *(f"{self._port_text(*one)} (open)" for one in opened[1:]),
            *(self._port_text(*one) for one in closed[1:]),
        ]
        line = self.query_one("#ports", Static)
        line.update(Text(f"listening inside: {', '.join(shown)}"))
        line.set_class(not shown, "empty")

    @property
    def _ports(self) -> tuple[Sequence[StackPort], Sequence[StackPort]]:
        """The ports of all stacks that are not open, and those that are, the newest first."""
        every = [(stack, one) for stack in self._stacks.values() for one in stack.inside.ports]
        every.sort(key=lambda pair: pair[1].arrival, reverse=True)
        return [pair for pair in every if not pair[1].here], [pair for pair in every if pair[1].here]

    def _port_text(self, stack: Watched, one: PortInside) -> str:
        return f"{self._mark(stack)}{one.port} {one.program}".rstrip()

    def action_open_port(self) -> None:
        """Open the newest port that listens inside."""
        if self._clock() - self._offered_since < SETTLE_SECONDS:
            self._say("the ports have just changed; look again")
            return
        (stack, one), *_ = self._ports[0]
        if stack.connection:
            self._try(partial(stack.connection.ports.open, Forward(here=one.port, inside=one.port)))

    def action_close_port(self) -> None:
        """Close the newest port that is open."""
        (stack, one), *_ = self._ports[1]
        if stack.connection:
            self._try(partial(stack.connection.ports.close, one.here))

    def show_new(self) -> None:
        """Show the requests that came since the last time, and say now and then how many are not shown."""
        new, missed = self._new.take()
        if new:
            self._table.take(new)
        self._missed += missed
        if self._missed and self._clock() >= self._quiet_until:
            self._say(f"{counted(self._missed, 'decision')} came too fast; agent-sandbox proxy logs has them")
            self._missed, self._quiet_until = 0, self._clock() + MISSED_SECONDS

    def _say(self, text: str) -> None:
        self.notify(text, timeout=5, markup=False)

    def _asked(self) -> Iterator[Asked]:
        for stack in self._stacks.values():
            for name, several in groups(stack.state.questions):
                yield Asked(stack=stack, name=name, questions=several)

    def _show_state(self) -> None:
        self._show_stacks()
        asked = [*self._asked()]
        self.query_one("#title", Static).update(Text(self._title()))
        self._list.clear_options()
        self._list.add_options([Option(self._line(one), id=one.id) for one in asked])
        self._list.set_class(not asked, "empty")
        scrolls = self.focused is self._details and self._details.allow_focus()
        if not scrolls and self.focused not in {self.query_one("#filter"), self.query_one("#stacks")}:
            (self._list if asked else self._table).focus()
        if self._read and not self._read.is_open and self._read.id != self._answered:
            self._say(GONE.format(self._read.shown))
        ids = [one.id for one in asked]
        if self._selected in ids:
            self._list.highlighted = ids.index(self._selected)
        elif asked:
            self._list.highlighted = 0
            self._select(ids[0])
        else:
            self._select("")
        self._show_details()

    def _title(self) -> str:
        states = [stack.state for stack in self._stacks.values()]
        counts = f"{sum(len(one.questions) for one in states)} open, {sum(len(one.grants) for one in states)} granted"
        if len(states) != 1:
            return f"{len(states)} stacks  {counts}"
        (stack,) = self._stacks.values()
        waits = f"these requests wait for you: {stack.state.ask}" if stack.state.ask else RULES_WAIT
        return f"{stack.name}  {waits}  {counts}"

    def _show_stacks(self) -> None:
        shown = self.query_one("#stacks", OptionList)
        lines = [(ALL, ALL_LINE), *((stack.name, _stack_line(stack)) for stack in self._stacks.values())]
        if shown.option_count != len(lines):
            shown.clear_options()
            shown.add_options([Option(Text(line), id=name) for name, line in lines])
            shown.highlighted = 0
            shown.set_class(len(self._stacks) <= 1, "empty")
            return
        for name, line in lines:
            shown.replace_option_prompt(name, Text(line))

    def _line(self, asked: Asked) -> Text:
        stack = self._mark(asked.stack)
        if asked.name:
            return Text(f"? {stack}{len({one.host for one in asked.questions})} hosts under {asked.name}")
        (one,) = asked.questions
        return Text(f"? {stack}{one.method} {one.url}")

    def _mark(self, stack: Watched) -> str:
        return f"[{stack.name}] " if len(self._stacks) > 1 else ""

    def _select(self, asked: str) -> None:
        if asked != self._selected:
            self._selected, self._moved = asked, self._clock()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Show the details of another question, or the requests of another stack."""
        if not self.query("#requests"):  # the screen ends, and its last messages still come
            return
        chosen = event.option.id or ""
        if event.option_list.id == "questions":
            self._select(chosen)
            self._show_details()
        elif self._only != (only := "" if chosen == ALL else chosen):
            self._only = only
            self._table.narrow(stack=only)

    @property
    def _current(self) -> Asked | None:
        """The selected question, or all questions of the selected domain."""
        return next((one for one in self._asked() if one.id == self._selected), None)

    def _show_details(self) -> None:
        asked, entry = self._current, self._table.entry
        self._read = asked
        if asked is None:
            lines: Sequence[str] = [*record_lines(entry[1])] if entry else []
        elif asked.name:
            hosts = ", ".join(sorted({one.host for one in asked.questions}))
            lines = (hosts[:300], "d denies them all; they cannot be allowed at once")
        else:
            lines = [*question_lines(asked.questions[0])]
        self._details.show("\n".join(map(printable, lines)))
        self.refresh_bindings()

    def on_data_table_row_highlighted(self, _: DataTable.RowHighlighted) -> None:
        """Show the details of a request, while no question is open."""
        if self.query("#requests"):
            self._show_details()

    def action_answer(self, word: str) -> None:
        """Answer the selected question, or deny all of a group."""
        asked = self._answerable(word)
        if asked is None or asked.stack.connection is None:
            return
        self._answered = asked.id
        for question in asked.questions:
            self._try(partial(asked.stack.connection.answer_for, question, word))
        if asked.name:
            self._say(f"denied {len(asked.questions)} requests under {asked.name}")

    def _answerable(self, word: str) -> Asked | None:
        asked = self._current
        if asked and self._clock() - self._moved < SETTLE_SECONDS:
            self._say("the question has just changed; look again")
            return None
        if asked and asked.name and word != "deny":
            self._say("a group can only be denied")
            return None
        return asked

    @override
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key does anything now; the footer shows no other."""
        if not self.query("#requests"):  # before the parts exist
            return True
        asked, entry = self._current, self._table.entry
        alone = asked is not None and not asked.name
        lasting = asked is not None and alone and asked.questions[0].lasting
        rule = lasting if asked else bool(entry and entry[1].get("decision") == "deny")
        possible = {
            ("answer", "deny"): asked is not None,
            ("answer", "once"): alone,
            ("answer", "hour"): lasting,
            ("answer", "stop"): lasting,
            ("rule", "p"): rule,
            ("rule", "u"): lasting,
            ("copy",): rule,
            ("open_port",): bool(self._ports[0]),
            ("close_port",): bool(self._ports[1]),
            ("edit",): asked is not None or entry is not None,
        }
        return possible.get((action, *map(str, parameters)), True)

    def action_rule(self, key: str) -> None:
        """Write the rule of the selected question into the policy of the project or the user.

        For a denied request, show the rule that would allow it, and ask.
        """
        if self._current is None:
            self._try(self._propose)
            return
        asked = self._answerable("rule")
        if asked and asked.stack.connection:
            self._answered = asked.id
            self._try(partial(self._write, asked.stack.connection, asked.questions[0], LAYERS[key]))

    def _propose(self) -> None:
        connection, chosen = self._chosen()
        assert not isinstance(chosen, Question)  # noqa: S101 - no question is open
        rules = Rules(connection.project.root, connection.write_rule)
        change = rules.of_record(chosen)

        def decided(agreed: bool | None) -> None:  # noqa: FBT001 - textual's
            if agreed:
                self._try(partial(self._add, rules, change))

        self.push_screen(RuleDialog(change), decided)

    def _add(self, rules: Rules, change: Change) -> None:
        self._say(rules.write(change.id) or "done")

    def _write(self, connection: Connection, question: Question, layer: RuleLayer) -> None:
        self._say(connection.allow_quietly(question, layer))

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except UserError as error:
            self._say("\n".join(map(str, error.problems)))

    def _chosen(self) -> tuple[Connection, Question | Mapping[str, Any]]:
        """Return the selected question, or else the selected request, with its connection; or raise UserError."""
        asked, entry = self._current, self._table.entry
        if asked and asked.stack.connection:
            return asked.stack.connection, asked.questions[0]
        connection = self._stacks[entry[0]].connection if entry else None
        if entry is None or connection is None:
            raise UserError([NOTHING_SELECTED])
        return connection, entry[1]

    def action_edit(self) -> None:
        """Open the line of the policy that decided, in the user's editor."""
        self._try(self._edit)

    def _edit(self) -> None:
        connection, chosen = self._chosen()
        record = {"reason": chosen.reason} if isinstance(chosen, Question) else chosen
        root = connection.project.root
        place = policy_line(root, record)
        editor_command(place, os.environ, project=root)  # without one, the screen stays
        try:
            with self.suspend():
                edit(place, os.environ, project=root)
        except SuspendNotSupported:
            raise UserError([NO_TERMINAL]) from None

    def action_copy(self) -> None:
        """Copy the rule that would allow the selected request, through this terminal (OSC 52)."""
        self._try(self._copy)

    def _copy(self) -> None:
        connection, chosen = self._chosen()
        if isinstance(chosen, Question):
            text = rule_for(chosen)
        else:
            text = suggested_rule(connection.project.root, chosen).rule.text
        entry = f"- {written(text)}"
        self.copy_to_clipboard(entry)
        self._say(f"copied, if your terminal allows it: {entry}")

    def action_grants(self) -> None:
        """List the grants in force."""
        lines = [f"{one.id}  {one.rule}  by {one.who}" for stack in self._stacks.values() for one in stack.state.grants]
        self._say("\n".join(lines) or "no grants")

    def action_pause(self) -> None:
        """Stop the list of requests, or let it go on."""
        self._table.toggle_pause()
        self._say("paused" if self._table.paused else "resumed")

    def action_filter(self) -> None:
        """Ask for a text that the shown requests contain."""
        field_ = self.query_one("#filter", Input)
        field_.remove_class("empty")
        field_.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show only what contains the text."""
        self._table.narrow(part=event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go back to the requests, with the filter."""
        event.input.set_class(not event.value, "empty")
        self._table.focus()

    def key_escape(self) -> None:
        """Clear the filter."""
        field_ = self.query_one("#filter", Input)
        field_.value = ""
        field_.add_class("empty")
        self._table.focus()


def _stack_line(stack: Watched) -> str:
    waiting = len(stack.state.questions)
    mark = f"?{waiting}" if waiting else "" if stack.connected else "off"
    return f"{mark:<4}{stack.name}"
