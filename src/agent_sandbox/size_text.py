"""Print a number of bytes for a person."""


def size_text(number: int) -> str:
    """Return a size with three digits.

    >>> size_text(0), size_text(999_999), size_text(1_234_000_000)
    ('0 B', '1 MB', '1.23 GB')
    """
    amount, units = float(number), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while amount >= 999.5 and (larger := next(units, "")):
        amount, unit = amount / 1000, larger
    return f"{float(f'{amount:.3g}'):g} {unit}"
