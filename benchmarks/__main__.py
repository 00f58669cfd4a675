"""Run all benchmarks, or those named: `python -m benchmarks [startup] [policy] [stack] [proxy]`."""

from __future__ import annotations

import platform
import sys

from benchmarks import policy, proxy, stack, startup
from benchmarks.table import markdown

GROUPS = {"startup": startup.rows, "policy": policy.rows, "stack": stack.rows, "proxy": proxy.rows}


def main() -> int:
    """Print one table."""
    wanted = sys.argv[1:] or list(GROUPS)
    if unknown := sorted(set(wanted) - set(GROUPS)):
        print(f"no such group: {', '.join(unknown)}; try: {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    rows = [row for group in wanted for row in GROUPS[group]()]
    print(
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}; medians, ratios pair by pair\n"
    )
    print(markdown(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
