"""`--resolve HOST:PORT:ADDR:PORT`: fixed addresses for names in tests, private ones included."""

import re
from ipaddress import ip_address

from msgspec import Struct

from agent_sandbox.problems import Problem, UserError

SHAPE = re.compile(r"(?P<host>[^:\[\]]+|\[[^]]+]):(?P<port>\d{1,5}):(?P<address>[^:\[\]]+|\[[^]]+]):(?P<to>\d{1,5})")


class Override(Struct, frozen=True, kw_only=True):
    """Connect to `address`:`to` instead of `host`:`port`."""

    host: str
    port: int
    address: str
    to: int


def parse_override(text: str) -> Override:
    """Parse one `--resolve` value.

    >>> parse_override("api.test:443:127.0.0.1:8443").to
    8443
    """
    found = SHAPE.fullmatch(text)
    problem = Problem(
        where=f"--resolve {text}", what="not HOST:PORT:ADDR:PORT", hint="such as api.test:443:127.0.0.1:8443"
    )
    if found is None or not all(0 < int(found[port]) < 65_536 for port in ("port", "to")):
        raise UserError([problem])
    address = found["address"].strip("[]")
    try:
        ip_address(address)
    except ValueError:
        raise UserError([problem]) from None
    host = found["host"].strip("[]").lower().removesuffix(".")
    return Override(host=host, port=int(found["port"]), address=address, to=int(found["to"]))
