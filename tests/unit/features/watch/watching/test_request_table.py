from typing import Any

import pytest
from textual.app import App

from agent_sandbox.features.watch.watching.request_table import RequestTable

RECORD: dict[str, Any] = {"decision": "deny", "method": "GET", "host": "b.test", "port": 443, "path": "/x"}


class Shows(App[None]):
    """A screen with nothing but the table."""

    table: RequestTable

    async def on_mount(self) -> None:
        """Make the table."""
        self.table = RequestTable()
        await self.mount(self.table)


def paths(table: RequestTable) -> list[str]:
    """Return the shown requests."""
    return [str(table.get_row(row)[2]).rpartition("/")[2] for row in table.rows]


async def test_filters_requests_by_stack_and_text() -> None:
    screen = Shows()
    async with screen.run_test(size=(80, 24)):
        table = screen.table
        assert table.entry is None
        table.take(
            [(stack, RECORD | {"path": f"/{path}"}) for stack, path in (("a", "one"), ("b", "two"), ("a", "three"))]
        )
        assert paths(table) == ["one", "two", "three"]
        table.narrow(stack="a")
        assert paths(table) == ["one", "three"]
        table.narrow(part="THREE")
        assert paths(table) == ["three"]
        table.narrow(stack="", part="")
        assert paths(table) == ["one", "two", "three"]


async def test_the_selection_follows_the_newest_request_until_another_one_is_selected() -> None:
    screen = Shows()
    async with screen.run_test(size=(80, 24)) as pilot:
        table = screen.table
        for path in ("one", "two"):
            table.take([("a", RECORD | {"path": f"/{path}"})])
            assert table.entry == ("a", RECORD | {"path": f"/{path}"})
        table.focus()
        await pilot.press("up")
        table.take([("a", RECORD | {"path": "/three"})])
        assert table.entry == ("a", RECORD | {"path": "/one"})


async def test_the_selection_moves_once_for_requests_that_came_together(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, moves = Shows(), []
    async with screen.run_test(size=(80, 24)):
        move = screen.table.move_cursor

        def counted(*, row: int) -> None:
            moves.append(row)
            move(row=row)

        monkeypatch.setattr(screen.table, "move_cursor", counted)
        screen.table.take([("a", RECORD | {"path": f"/{number}"}) for number in range(30)])
        assert (moves, screen.table.entry) == ([29], ("a", RECORD | {"path": "/29"}))


async def test_shows_requests_that_arrived_during_a_pause_afterwards() -> None:
    screen = Shows()
    async with screen.run_test(size=(80, 24)):
        table = screen.table
        table.toggle_pause()
        table.take([("a", RECORD)])
        assert (table.paused, table.row_count) == (True, 0)
        table.toggle_pause()
        assert (table.paused, table.row_count) == (False, 1)


async def test_a_request_cannot_control_the_terminal() -> None:
    screen = Shows()
    async with screen.run_test(size=(80, 24)):
        screen.table.take([("a", RECORD | {"path": "/\x1b[2J\u202e", "reason": "\x07"})])
        (row,) = screen.table.rows
        assert [str(cell) for cell in screen.table.get_row(row)][2:] == ["GET https://b.test/\\x1b[2J\\u202e", "\\x07"]
