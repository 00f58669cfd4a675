import pytest

from agent_sandbox.policyfile.text.scalars import Doubtful, plain_value
from table_tests import each


@each(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("false", False),
        ("0", 0),
        ("443", 443),
        ("-1", -1),
        ("10.0.0.1", "10.0.0.1"),
        ("443a", "443a"),
        ("2001:db8::1", "2001:db8::1"),
        ("1MiB", "1MiB"),
        ("example.com", "example.com"),
        (".example.com", ".example.com"),
        ("none", "none"),
        ("nobody", "nobody"),
    ],
)
def test_returns_the_value_on_which_all_parsers_agree(text: str, value: object) -> None:
    got = plain_value(text)
    assert (type(got), got) == (type(value), value)


@each(
    ("text", "hint"),
    [
        ("no", 'quote it: "no", or write `false`'),
        ("Off", 'quote it: "Off", or write `false`'),
        ("on", 'quote it: "on", or write `true`'),
        ("y", 'quote it: "y", or write `true`'),
        ("TRUE", 'quote it: "TRUE", or write `true`'),
        ("Null", 'quote it: "Null"'),
        ("1:30", 'quote it: "1:30"'),
        ("017", 'quote it: "017"'),
        ("0o17", 'quote it: "0o17"'),
        ("0x7f", 'quote it: "0x7f"'),
        ("1_000", 'quote it: "1_000"'),
        ("1.5", 'quote it: "1.5"'),
        (".inf", 'quote it: ".inf"'),
        ("2024-01-01", 'quote it: "2024-01-01"'),
        ("=", 'quote it: "="'),
        ("9" * 19, f'quote it: "{"9" * 19}"'),
    ],
)
def test_rejects_a_word_on_which_parsers_differ(text: str, hint: str) -> None:
    with pytest.raises(Doubtful) as doubt:
        plain_value(text)
    assert doubt.value.hint == hint
