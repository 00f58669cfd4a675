"""Compare the proxy's clock with this machine's: the engine may run in a virtual machine that slept."""

from datetime import datetime, timedelta

# Certificates tolerate a smaller difference.
TOLERATED = timedelta(minutes=5)
UNITS = {"days": timedelta(days=1), "hours": timedelta(hours=1), "minutes": timedelta(minutes=1)}


def clock_off(said: str, *, now: datetime) -> str:
    """Return how far off the proxy's clock is, or an empty string.

    >>> from datetime import UTC
    >>> clock_off("2026-03-01T10:00:00Z", now=datetime(2026, 3, 1, 7, tzinfo=UTC))
    '3 hours ahead'
    """
    off = datetime.fromisoformat(said) - now
    if abs(off) < TOLERATED:
        return ""
    name, unit = next((name, unit) for name, unit in UNITS.items() if abs(off) >= 2 * unit)
    return f"{round(abs(off) / unit)} {name} {'ahead' if off > timedelta() else 'behind'}"
