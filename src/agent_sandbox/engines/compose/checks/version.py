"""Parse versions such as `v2.26.1-4`, `26.1.5+dfsg1`, `Docker Desktop 4.44.3 (202357)`."""

import re

type Version = tuple[int, ...]

NUMBER = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
# Suffixes of distributions that patch the upstream version.
PATCHED = re.compile(r"[+~-](?:ds|dfsg|deb|ubuntu|\d+ubuntu|el\d|fc\d)|-\d+$")


def parse(text: str) -> Version:
    """Return the first version in the text as a tuple of numbers, or an empty tuple.

    >>> parse("Docker Compose version v2.26")
    (2, 26, 0)
    """
    match = NUMBER.search(text)
    return tuple(int(part or 0) for part in match.groups()) if match else ()


def shown(version: Version) -> str:
    """Return the version as text."""
    return ".".join(map(str, version))


def is_distributions(text: str) -> bool:
    """Return whether a distribution built it and may fix vulnerabilities without a new version number.

    >>> is_distributions("1.1.5+ds1"), is_distributions("1.1.12")
    (True, False)
    """
    return PATCHED.search(text) is not None
