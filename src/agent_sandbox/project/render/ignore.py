"""Add paths to a file that tells git what to ignore, and keep all other lines."""

from collections.abc import Collection, Iterable

COMMENT = "# Files of agent-sandbox that belong to this directory on this machine:"


def ignoring(text: str, paths: Iterable[str]) -> str:
    r"""Return the text with these paths added below our comment, unless it has them.

    >>> ignoring("*.log", [".env"]).splitlines()[2]
    '/.env'
    """
    there = ignored(text)
    missing = [path for path in paths if not names(path, there)]
    if not missing:
        return text
    end = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text or text.endswith("\n") else end
    return f"{text}{gap}{COMMENT}{end}" + "".join(f"/{path}{end}" for path in missing)


def no_longer_ignoring(text: str, paths: Collection[str]) -> str:
    """Return the text without these paths below our comment, and without one that nothing follows.

    Lines that others wrote stay.
    """
    kept, ours = list[str](), False
    for line in text.splitlines(keepends=True):
        if ours and line.strip().removeprefix("/") in paths and line.startswith("/"):
            continue
        if kept and kept[-1].strip() == COMMENT and not line.startswith("/"):
            kept.pop()
        ours = line.strip() == COMMENT or (ours and line.startswith("/"))
        kept.append(line)
    return "".join(kept[:-1] if kept and kept[-1].strip() == COMMENT else kept)


def ignored(text: str) -> set[str]:
    """Return the lines of such a file."""
    return {line.strip() for line in text.splitlines()}


def names(path: str, lines: Collection[str]) -> bool:
    """Return whether one of these lines is exactly this path."""
    return path in lines or f"/{path}" in lines
