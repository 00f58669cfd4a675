"""The table of docs/clients.md matches the clients that tests/e2e/test_clients.py tries."""

from client_table import PAGE, clients, page


def test_the_table_of_clients_is_up_to_date() -> None:
    assert page() == PAGE.read_text(), "write it anew: python tests/lab/client_table.py"


def test_every_client_has_a_test_without_variables_or_a_reason_for_none() -> None:
    silent = [client.name for client in clients() if bool(client.unknown) is bool(client.without)]
    assert silent == []
