"""Names that a stranger chose are readable and cannot be mistaken for other names."""

from agent_sandbox.printable import printable, printable_lines
from table_tests import each


@each(
    ("sign", "spelled"),
    [
        ("\u200b", r"\u200b"),
        ("\u200d", r"\u200d"),
        ("\u2060", r"\u2060"),
        ("\ufeff", r"\ufeff"),
        ("\u00ad", r"\xad"),
        ("\u00a0", r"\xa0"),
        ("\u3000", r"\u3000"),
        ("\u2028", r"\u2028"),
        ("\u202e", r"\u202e"),
        ("\u3164", r"\u3164"),
        ("\ufe0f", r"\ufe0f"),
        ("\u034f", r"\u034f"),
        ("\u2800", r"\u2800"),
        ("\ue000", r"\ue000"),
        ("\U000e0041", r"\U000e0041"),
        ("\U000e0100", r"\U000e0100"),
        ("\udcff", r"\udcff"),
    ],
)
def test_escapes_invisible_characters(sign: str, spelled: str) -> None:
    assert printable(f"docs{sign}x") == f"docs{spelled}x"


@each("text", ["", "a b", "a\tb", "Ünïcødé", "日本", "e\u0301", "👍", "עברית", "\u0915\u094d\u0937"])
def test_keeps_visible_text(text: str) -> None:
    assert printable(text) == text


def test_printable_lines_keeps_newlines() -> None:
    assert (printable("a\nb\u200b"), printable_lines("a\nb\u200b")) == (r"a\x0ab\u200b", "a\nb\\u200b")
