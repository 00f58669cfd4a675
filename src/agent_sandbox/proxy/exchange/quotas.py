"""Quotas: for request bodies that are buffered until the request is decided, and the policy's budgets.

Budgets are counted in memory, by the one thread that serves all connections, and written to a file each second.
"""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from math import ceil, inf
from pathlib import Path
from typing import Any

from agent_sandbox.atomic_file import write_file
from agent_sandbox.bounded_json import read_json
from agent_sandbox.policy.engine.rule_set import Budgeted
from agent_sandbox.policy.http.body_size import PERIODS, shown_rate
from agent_sandbox.proxy.exchange.exchange import Exchange, OverBudget, Spend, spend_freely
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.secrets.store import uptime

# Stop counting a body after this time, in case the end of its request was missed.
FORGOTTEN_SECONDS = 60.0
BOOT = Path("/proc/sys/kernel/random/boot_id")


class BodyQuota:
    """Counts the requests whose bodies are buffered, from the request head until they are forwarded or answered."""

    def __init__(self, limits: Limits, *, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._held: list[tuple[float, Exchange]] = []

    def admits(self, exchange: Exchange) -> bool:
        """Mark `exchange` as buffered and return True; return False if too many bodies are buffered already."""
        now = self._clock()
        self._held = [(until, other) for until, other in self._held if other.held and now < until]
        if len(self._held) >= self._limits.bodies_held:
            return False
        self._held.append((now + FORGOTTEN_SECONDS, exchange))
        exchange.held = True
        return True


def boot() -> str:
    """Return what identifies this start of the machine."""
    try:
        return BOOT.read_text("ascii").strip()
    except OSError:
        return ""


class Budgets:
    """The use of each budget, in windows: one starts with the first use, and ends after the budget's time.

    If the file cannot be read, every budget counts as used up when the proxy started: losing the counts must not reset
    them. The file says so from then on. Only the proxy writes it.
    """

    def __init__(
        self, path: Path, *, clock: Callable[[], float] = uptime, boot: str = "", now: Callable[[], float] = time.time
    ) -> None:
        self._path, self._clock, self._boot, self._now = path, clock, boot, now
        # When the use before was lost.
        self._lost = -inf
        # By key, kind and seconds: when the window started, and how much was used in it.
        self._windows: dict[str, tuple[float, int]] = {}
        try:
            self._read(read_json(path.read_bytes()))
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
            self._windows, self._lost = {}, clock()
        self._written = None if self._lost > -inf else dict(self._windows)

    def _read(self, said: Any) -> None:  # noqa: ANN401 - whatever the file holds
        now, same = self._clock(), said["boot"] == self._boot
        for name, (start, used) in said["windows"].items():
            # After a reboot, it is unknown how much time has passed.
            self._windows[str(name)] = (float(start) if same and start <= now else now, int(used))
        if "lost" in said:
            self._lost = float(said["lost"]) if same and said["lost"] <= now else now

    def spender(self, budgeted: Sequence[Budgeted]) -> Spend:
        """Return a function that counts the use of these budgets."""
        return partial(self._spend, tuple(budgeted)) if budgeted else spend_freely

    def _spend(self, budgeted: Sequence[Budgeted], kind: str, amount: int) -> OverBudget | None:
        """Count an amount against all budgets. If one of them has no room, count nothing and return which."""
        now, counted = self._clock(), dict[str, tuple[float, int]]()
        for one in budgeted:
            for rate in (rate for name, rate in one.budget.rates() if name == kind):
                name = f"{one.key} {kind} {rate.seconds}"
                start, used = self._window(name, now, rate.seconds, rate.most)
                if used + amount > rate.most:
                    left = start + rate.seconds - now
                    return self._over(one, shown_rate(kind, rate), left, lost=self._is_lost(now, rate.seconds))
                counted[name] = (start, used + amount)
        self._windows |= counted
        return None

    def _window(self, name: str, now: float, seconds: int, most: int) -> tuple[float, int]:
        start, used = self._windows.get(name, (now, 0))
        if now >= start + seconds:
            start, used = now, 0
        return (self._lost, most) if self._is_lost(now, seconds) else (start, used)

    def _is_lost(self, now: float, seconds: int) -> bool:
        return now < self._lost + seconds

    def _over(self, one: Budgeted, amount: str, left: float, *, lost: bool) -> OverBudget:
        resets = datetime.fromtimestamp(self._now() + left, UTC)
        state = "counts as used up, because its use could not be read" if lost else "is used up"
        reason = f"the budget at {one.origin} {state}: {amount}; it resets at {resets:%Y-%m-%d %H:%M:%S} UTC"
        return OverBudget(reason, max(1, ceil(left)))

    def write(self) -> None:
        """Write the counts if they have changed. If that fails, they are written next time."""
        windows, now = dict(self._windows), self._clock()
        if windows == self._written:
            return
        longest = max(PERIODS.values())
        kept = {name: one for name, one in windows.items() if now < one[0] + longest}
        with suppress(OSError):
            lost = {"lost": self._lost} if self._is_lost(now, longest) else {}
            write_file(self._path, json.dumps({"boot": self._boot, "windows": kept, **lost}).encode("ascii"))
            self._written = windows
