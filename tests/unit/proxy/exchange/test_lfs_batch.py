import json

import pytest

from agent_sandbox.proxy.exchange.lfs_batch import STARS, BatchError, batch_filter, hidden
from agent_sandbox.proxy.exchange.tool_list import MAX_ANSWER, Room
from table_tests import each

OWN, FOR_A_FILE = {"Authorization": "Basic bWU6and0", "X": "y"}, {"Authorization": "RemoteAuth for-this-file"}
WHY = "its credentials for large files could not be hidden: "


def batch(*links: tuple[str, object]) -> bytes:
    """Return a response with these addresses and headers."""
    actions = [{"upload": {"href": href, "header": header}} for href, header in links]
    return json.dumps({"objects": [{"oid": "1", "actions": one} for one in actions]}).encode()


@each(
    ("href", "header", "shown"),
    [
        ("https://a.test/x", OWN, {"Authorization": STARS, "X": "y"}),
        ("https://A.TEST.:443/x", OWN, {"Authorization": STARS, "X": "y"}),
        ("https://me@a.test/x", {"AUTHORIZATION": "Bearer x"}, {"AUTHORIZATION": STARS}),
        ("/x", OWN, {"Authorization": STARS, "X": "y"}),
        (None, OWN, {"Authorization": STARS, "X": "y"}),
        ("https://a.test/x", {"Authorization": 1}, {"Authorization": STARS}),
        ("https://a.test/x", {"X": "y"}, {"X": "y"}),
        ("https://a.test/x", None, None),
        ("https://b.test/x", FOR_A_FILE, FOR_A_FILE),
    ],
)
def test_a_credential_for_this_host_is_hidden(href: str | None, header: object, shown: object) -> None:
    assert hidden(batch((href or "", header)), "a.test") == batch((href or "", shown))


def test_credentials_are_hidden_wherever_they_are() -> None:
    said = [{"_links": {"upload": {"header": OWN}}}, {"header": OWN, "href": 4}, "x"]
    assert b"bWU6and0" not in hidden(json.dumps(said).encode(), "a.test")


@each(
    ("body", "why"),
    [
        (b"<html>", "a body that is not JSON in UTF-8"),
        (b'{"header": {}, "header": {}}', "a duplicate key"),
        (b'{"href": "https://[", "header": {}}', "an invalid address or number, or too many brackets"),
        (b'{"x": 1e999}', "an invalid address or number, or too many brackets"),
        (b"[" * 100_000, "a body that is not JSON in UTF-8"),
    ],
)
def test_a_response_that_could_be_read_differently_is_not_forwarded(body: bytes, why: str) -> None:
    with pytest.raises(BatchError) as raised:
        hidden(body, "a.test")
    assert str(raised.value) == WHY + why


def test_a_response_is_held_until_it_is_complete() -> None:
    one, whole = batch_filter("a.test", Room()), batch(("https://a.test/x", OWN))
    assert [one.feed(whole[:20]), one.feed(whole[20:])] == [(b"",), (b"",)]
    assert b"bWU6and0" not in one.end()
    with pytest.raises(BatchError, match=f"{WHY}a message of more than 1024 KiB"):
        batch_filter("a.test", Room()).feed(b" " * (MAX_ANSWER + 1))
