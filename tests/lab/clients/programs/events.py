"""Reads server-sent events, and says whether they came when they were sent."""

import sys
import time

import httpx

with httpx.stream("GET", sys.argv[1]) as answer:
    answer.raise_for_status()
    came = [(time.monotonic(), line) for line in answer.iter_lines() if line]
print(came[-1][1], "one by one" if came[-1][0] - came[0][0] > 0.6 else "all at once")
