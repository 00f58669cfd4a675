from agent_sandbox.policy.text import safe_repr


def test_safe_repr_escapes_newlines_colours_and_bidi_controls() -> None:
    assert safe_repr('a\n{"decision":"allow"}\x1b[31m\u202e') == r"""'a\n{"decision":"allow"}\x1b[31m\u202e'"""


def test_safe_repr_truncates_long_text() -> None:
    assert safe_repr("a" * 81) == f"'{'a' * 80}...'"
