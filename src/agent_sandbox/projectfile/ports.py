"""The ports of the sandbox that answer on the host machine, as text."""

import re

HIGHEST = 65_535
FIRST_FREE = 1024  # those below need root
FORM = re.compile(r"(?:(\d{1,5}):)?(\d{1,5})", re.ASCII)

# A port of the host machine, and the port of the sandbox that it leads to.
type Pair = tuple[int, int]


def parse_port(text: str) -> Pair | None:
    """Return the ports that `PORT` or `HERE:PORT` names, or None if it is neither.

    >>> parse_port("3000"), parse_port("8080:3000"), parse_port("0"), parse_port("3000/udp")
    ((3000, 3000), (8080, 3000), None, None)
    """
    match = FORM.fullmatch(text)
    here, inside = (int(match[1] or match[2]), int(match[2])) if match else (0, 0)
    return (here, inside) if match and 0 < inside <= HIGHEST and here <= HIGHEST else None
