"""Parse ADDR:PORT. Separate from the settings, because the health check needs only this."""

import re

from agent_sandbox.problems import Problem, UserError

SHAPE = re.compile(r"(?P<host>[^:\[\]]+|\[[^]]+]):(?P<port>\d{1,5})")

Place = tuple[str, int]


def parse_address(text: str, *, option: str) -> Place:
    """Parse ADDR:PORT.

    >>> parse_address("127.0.0.1:0", option="--listen")
    ('127.0.0.1', 0)
    """
    found = SHAPE.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        raise UserError([Problem(where=f"{option} {text}", what="not ADDR:PORT", hint="such as 127.0.0.1:8080")])
    return found["host"].strip("[]"), int(found["port"])
