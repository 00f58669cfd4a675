"""What compose and docker say while they work, cut down to what a person waits for."""

import re

LINE = re.compile(r"(?P<kind>Container|Network|Volume) +(?P<name>\S+) +(?P<state>[A-Z]\w+)")
TOLD = {"Started": "started", "Healthy": "ready", "Unhealthy": "unhealthy", "Error": "failed", "Removed": "removed"}
# What is going to be done, or has been counted, beside the names of what it was done to.
TALK = re.compile(r"\s*(Going to remove |Deleted Volumes:|Total reclaimed space: )")


def told(line: str, project: str) -> str | None:
    """Return what a line says of the project, in few words; None for what only compose has to know.

    >>> told(" Container app-1-proxy-1  Healthy", "app-1")
    'proxy ready'
    """
    match = LINE.search(line)
    if not match:
        volume = line.strip().removeprefix(f"{project}_")
        if volume != line.strip():  # `docker volume prune` names what it has removed, and no more
            return f"{volume} removed"
        return None if TALK.match(line) else " ".join(line.split()) or None
    if match["state"] not in TOLD or (match["kind"] != "Container" and match["state"] != "Removed"):
        return None
    name = match["name"].strip('"').removeprefix(f"{project}-").removeprefix(f"{project}_").removesuffix("-1")
    return f"{name} {TOLD[match['state']]}"
