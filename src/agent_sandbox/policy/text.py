"""Quote untrusted text for messages: escaped and bounded, so that it cannot forge lines or colours."""

MAX_SHOWN = 80


def safe_repr(text: str) -> str:
    r"""Return the text quoted, escaped and cut to `MAX_SHOWN` characters.

    >>> safe_repr("a\n\x1b[31m")
    "'a\\n\\x1b[31m'"
    """
    return ascii(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}...")
