from datetime import UTC, datetime, timedelta

import pytest

from agent_sandbox.runtime.proxy.clock import clock_off

NOW = datetime(2026, 3, 1, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("off", "told"),
    [
        (timedelta(), ""),
        (timedelta(minutes=4), ""),
        (timedelta(minutes=-4), ""),
        (timedelta(minutes=5), "5 minutes ahead"),
        (timedelta(minutes=-90), "90 minutes behind"),
        (timedelta(hours=47), "47 hours ahead"),
        (timedelta(days=365), "365 days ahead"),
        (timedelta(days=-365), "365 days behind"),
        (timedelta(days=365, seconds=-3), "365 days ahead"),  # the answer took a while
    ],
)
def test_reports_a_clock_that_is_off_by_five_minutes_or_more(off: timedelta, told: str) -> None:
    assert clock_off((NOW + off).isoformat(), now=NOW) == told
