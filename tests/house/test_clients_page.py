"""The table of docs/clients.md is the one that tests/e2e/test_clients.py goes by."""

from __future__ import annotations

from client_table import PAGE, clients, page


def test_the_page_says_what_is_tested() -> None:
    assert page() == PAGE.read_text(), "write it anew: python tests/lab/client_table.py"


def test_every_client_is_tried_without_variables_or_says_why_not() -> None:
    silent = [client.name for client in clients() if bool(client.unknown) is bool(client.without)]
    assert silent == []
