from agent_sandbox.features.secrets.sources.value import faults, without_line_end
from table_tests import each


@each(
    ("value", "wrong"),
    [
        (b"correct horse", []),
        (b"x" * 65536, []),
        (b"x" * 65537, ["it is longer than 64 KiB"]),
        (b"one\ntwo", ["it has more than one line", "it has fewer than 8 characters"]),
        ("größer als".encode(), ["it contains characters that are not printable ASCII"]),
        (b" correct horse", ["it begins or ends with a space"]),
    ],
)
def test_a_value_is_one_line_of_printable_ascii(value: bytes, wrong: list[str]) -> None:
    assert [what for what, _ in faults(value)] == wrong


@each(("said", "value"), [(b"a\n", b"a"), (b"a\r\n", b"a"), (b"a\n\n", b"a\n"), (b"a\r", b"a\r"), (b"a", b"a")])
def test_removes_one_line_end_from_a_value(said: bytes, value: bytes) -> None:
    assert without_line_end(said) == value
