"""The rows of clients.yaml, and the table that docs/clients.md makes of them; run it to write that anew."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROWS = Path(__file__).with_suffix("").parent / "clients.yaml"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
BEGIN, END = "<!-- from tests/lab/clients.yaml -->\n", "<!-- so far -->\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """The command of a client, and its output for an allowed and for a denied host."""

    name: str
    run: str
    says: str
    denied: str
    unknown: str = ""
    without: str = ""
    user: str = "dev"

    @property
    def row(self) -> str:
        """One line of the table."""
        last = f"`{self.unknown}`" if self.unknown else "-"
        cells = (self.name, "works", self.without or "works", f"`{self.denied}`", last)
        return f"| {' | '.join(cells)} |"


def clients() -> Sequence[Client]:
    """Return every row."""
    rows: dict[str, dict[str, Any]] = yaml.safe_load(ROWS.read_text())
    return [Client(name=name, **row) for name, row in rows.items()]


def table() -> str:
    """Return the text of the page."""
    head = "| client | with proxy variables | without | a denial reads, with them | without |"
    return "\n".join([head, "| --- | --- | --- | --- | --- |", *(client.row for client in clients())])


def page() -> str:
    """Return the page with the table of today."""
    before, rest = PAGE.read_text().split(BEGIN)
    _, behind = rest.split(END)
    return f"{before}{BEGIN}{table()}\n{END}{behind}"


if __name__ == "__main__":
    PAGE.write_text(page())
