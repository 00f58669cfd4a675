"""Run all benchmarks but `shims` and `trees`, or the groups named.

PYTHONPATH=. python -P -m benchmarks [GROUP...]
"""

from __future__ import annotations

import platform
import sys
from importlib import import_module

from benchmarks.image import measured_in_image
from benchmarks.table import markdown

# By what is measured in the proxy's image, by that image's Python, as users have it.
GROUPS = {
    "startup": False,
    "policy": True,
    "stack": False,
    "proxy": False,
    "peers": False,
    "lane": True,
    "watching": False,
    "secrets": True,
    "ports": False,
    "packages": False,
    "shims": False,
    "trees": False,
}
ON_REQUEST = ("shims", "trees")  # figures that decide about code, and that no user waits for


def main() -> int:
    """Print a table for each group."""
    wanted = sys.argv[1:] or [group for group in GROUPS if group not in ON_REQUEST]
    if unknown := sorted(set(wanted) - set(GROUPS)):
        print(f"no such group: {', '.join(unknown)}; try: {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    for group in wanted:
        if not (GROUPS[group] and measured_in_image(group)):
            measure(group)
    return 0


def measure(group: str) -> None:
    """Print a group's table, made under this Python."""
    rows = import_module(f"benchmarks.{group}").rows()
    if not rows:
        return
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    print(f"{group}: {machine}; medians, ratios pair by pair\n\n{markdown(rows)}\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
