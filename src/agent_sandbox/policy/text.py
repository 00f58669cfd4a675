"""Foreign text in a message: escaped and bounded, so that it can forge neither a line nor a colour."""

MAX_SHOWN = 80


def safe_repr(text: str) -> str:
    r"""Return the text in quotes.

    >>> safe_repr("a\n\x1b[31m")
    "'a\\n\\x1b[31m'"
    """
    return ascii(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}...")
