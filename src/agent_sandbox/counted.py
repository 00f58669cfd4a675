"""Print a number with what it counts."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "file"), counted(0, "volume")
    ('1 file', '0 volumes')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def times(number: int) -> str:
    """Return how often something happened.

    >>> times(1), times(3)
    ('once', '3 times')
    """
    return "once" if number == 1 else f"{number} times"
