"""The rows of clients.yaml, and the list that docs/clients.md makes of them; run it to write that anew."""

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


def clients() -> Sequence[Client]:
    """Return every row."""
    rows: dict[str, dict[str, Any]] = yaml.safe_load(ROWS.read_text())
    return [Client(name=name, **row) for name, row in rows.items()]


def names() -> str:
    """Return the text of the page."""
    return "; ".join(
        client.name + (f" (without the variables: {client.without})" if client.without else "") for client in clients()
    )


def page() -> str:
    """Return the page with the list of today."""
    before, rest = PAGE.read_text().split(BEGIN)
    _, behind = rest.split(END)
    return f"{before}{BEGIN}{names()}\n{END}{behind}"


if __name__ == "__main__":
    PAGE.write_text(page())
