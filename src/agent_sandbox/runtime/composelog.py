"""Compose's own progress, cut down to what a person waits for."""

import re

LINE = re.compile(r"(?P<kind>Container|Network|Volume) +(?P<name>\S+) +(?P<state>[A-Z]\w+)")
TOLD = {"Started": "started", "Healthy": "ready", "Unhealthy": "unhealthy", "Error": "failed", "Removed": "removed"}


def told(line: str, project: str) -> str | None:
    """Return what a line says of the project, in few words; None for what only compose has to know.

    >>> told(" Container app-1-proxy-1  Healthy", "app-1")
    'proxy ready'
    """
    match = LINE.search(line)
    if not match:
        return " ".join(line.split()) or None
    if match["state"] not in TOLD or (match["kind"] != "Container" and match["state"] != "Removed"):
        return None
    name = match["name"].strip('"').removeprefix(f"{project}-").removeprefix(f"{project}_").removesuffix("-1")
    return f"{name} {TOLD[match['state']]}"
