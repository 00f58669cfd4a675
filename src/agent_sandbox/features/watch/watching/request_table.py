"""The table of decided requests on the screen of `watch`: the newest last, a bounded number, filtered."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, override

from rich.text import Text
from textual.widgets import DataTable

from agent_sandbox.features.proxy.decisions import asked, local_time, why
from agent_sandbox.printable import printable

if TYPE_CHECKING:
    from textual.widgets.data_table import RowKey

KEPT = 300  # requests: to remove one takes time for each of them
STYLES = {"allow": "green", "deny": "bold red"}
HINTED = "bold yellow"
WIDEST, LONGEST = 60, 200

type Entry = tuple[str, Mapping[str, Any]]


class RequestTable(DataTable[Text]):
    """Shows the requests of one stack, or of all, that contain a text."""

    def __init__(self) -> None:
        super().__init__(id="requests", cursor_type="row", show_header=False, zebra_stripes=False)
        self._entries: deque[Entry] = deque(maxlen=KEPT)
        self._shown: dict[RowKey, Entry] = {}
        self._only_stack, self._only_part = "", ""
        self.paused = False

    @override
    def on_mount(self) -> None:
        """Make the columns."""
        self.add_columns("time", "effect", "request", "reason")

    @property
    def entry(self) -> Entry | None:
        """The selected request, with the name of its stack."""
        if not self.row_count:
            return None
        return self._shown.get(self.coordinate_to_cell_key(self.cursor_coordinate).row_key)

    def take(self, new: Sequence[Entry]) -> None:
        """Keep requests, and show them unless the table is paused."""
        self._entries.extend(new)
        if not self.paused:
            self._show(new)

    def narrow(self, *, stack: str | None = None, part: str | None = None) -> None:
        """Show only requests of this stack, "" for all, and those that contain this text."""
        self._only_stack = self._only_stack if stack is None else stack
        self._only_part = self._only_part if part is None else part.lower()
        self.clear()
        self._shown.clear()
        self._show(self._entries)

    def toggle_pause(self) -> None:
        """Pause the table, or resume it."""
        self.paused = not self.paused
        if not self.paused:
            self.narrow()

    def _show(self, entries: Iterable[Entry]) -> None:
        follows = self.cursor_row >= self.row_count - 1
        for entry in entries:
            self._put(entry)
        if follows and self.row_count:
            self.move_cursor(row=self.row_count - 1)  # once: it takes longer than to add a row

    def _put(self, entry: Entry) -> None:
        stack, record = entry
        request, reason = printable(asked(record)), printable(why(record))
        if self._only_stack not in {"", stack} or self._only_part not in f"{request} {reason}".lower():
            return
        effect, mark = str(record.get("decision", "")), "!" if record.get("hint") else ""
        when = local_time(str(record.get("time", "")), shape="%H:%M:%S")
        if self.row_count >= KEPT:
            oldest = next(iter(self.rows))
            self.remove_row(oldest)
            self._shown.pop(oldest, None)
        row = self.add_row(
            Text(when),
            Text(f"{effect}{mark}", style=HINTED if mark else STYLES.get(effect, "")),
            Text(request[:WIDEST]),
            Text(reason[:LONGEST]),
        )
        self._shown[row] = entry
