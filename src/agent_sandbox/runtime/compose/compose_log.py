"""Shorten the output of docker and compose to the progress that a user waits for."""

import re

LINE = re.compile(r"(?P<kind>Container|Network|Volume) +(?P<name>\S+) +(?P<state>[A-Z]\w+)")
TOLD = {"Started": "started", "Healthy": "ready", "Unhealthy": "unhealthy", "Error": "failed", "Removed": "removed"}
# Announcements and totals, without names of the project.
TALK = re.compile(r"\s*(Going to remove |Deleted Volumes:|Total reclaimed space: )")


def shown_text(line: str, project: str) -> str | None:
    """Return a line's progress in a few words, or None if it is not of interest.

    >>> shown_text(" Container app-1-proxy-1  Healthy", "app-1")
    'proxy ready'
    """
    match = LINE.search(line)
    if not match:
        volume = line.strip().removeprefix(f"{project}_")
        if volume != line.strip():  # `docker volume prune` prints only the names of removed volumes
            return f"{volume} removed"
        return None if TALK.match(line) else " ".join(line.split()) or None
    if match["state"] not in TOLD or (match["kind"] != "Container" and match["state"] != "Removed"):
        return None
    name = match["name"].strip('"').removeprefix(f"{project}-").removeprefix(f"{project}_").removesuffix("-1")
    return f"{name} {TOLD[match['state']]}"
