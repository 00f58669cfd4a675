import pytest

from agent_sandbox.proxy.wire.message import Fields, RequestHead, closes, has_field, names_of, value_of

FIELDS: Fields = ((b"Accept", b"text/html"), (b"X", b"\xff"), (b"ACCEPT", b"*/*"))


@pytest.mark.parametrize(
    ("name", "wanted"), [(b"accept", "text/html, */*"), (b"x", "\udcff"), (b"y", "none"), (b"Accept", "none")]
)
def test_value_of_joins_all_values_of_a_field(name: bytes, wanted: str) -> None:
    assert value_of(FIELDS, name, "none") == wanted


def test_names_of_lists_each_field_name_once() -> None:
    assert names_of(FIELDS) == "accept, x"
    assert names_of(((b"\xff", b""),)) == "\xff"


def test_has_field_ignores_the_case_of_names_in_the_message() -> None:
    assert [has_field(FIELDS, name) for name in (b"accept", b"x", b"y")] == [True, True, False]


@pytest.mark.parametrize(("version", "wanted"), [(b"HTTP/2.0", True), (b"HTTP/1.1", False), (b"HTTP/1.0", False)])
def test_recognises_an_http2_request_by_its_version(version: bytes, *, wanted: bool) -> None:
    assert RequestHead(b"GET", b"/", version, ()).is_http2 is wanted


@pytest.mark.parametrize(
    ("version", "connection", "wanted"),
    [
        ("HTTP/1.1", b"", False),
        ("HTTP/1.1", b"Close", True),
        ("HTTP/1.1", b"upgrade, close", True),
        ("HTTP/1.0", b"", True),
        ("HTTP/1.0", b"keep-alive", False),
        ("HTTP/1.0", b"keep-alive, close", True),
    ],
)
def test_the_version_and_the_connection_header_decide_whether_the_connection_closes(
    version: str, connection: bytes, *, wanted: bool
) -> None:
    assert closes(version, ((b"Connection", connection),)) is wanted
