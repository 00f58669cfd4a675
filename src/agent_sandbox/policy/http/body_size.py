"""The size of a body, written as `1MiB`, `500KB` or a number of bytes."""

import re

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.text import safe_repr

UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
SIZE = re.compile(rf"(?P<number>0|[1-9][0-9]{{0,8}}) ?(?P<unit>{'|'.join(UNITS)})", re.ASCII)
HOW = f"write a number of bytes, or a number with {', '.join(UNITS)}, such as `1MiB`"


def parse_body_size(value: object) -> int:
    """Return the number of bytes, or raise InvalidValue.

    >>> parse_body_size("1MiB"), parse_body_size("500KB"), parse_body_size(0)
    (1048576, 500000, 0)
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise InvalidValue(f"not a size: `{value}`", HOW)
        return value
    if not isinstance(value, str):
        raise InvalidValue("a size has to be a number of bytes", HOW)
    found = SIZE.fullmatch(value)
    if found is None:
        raise InvalidValue(f"not a size: {safe_repr(value)}", HOW)
    return int(found["number"]) * UNITS[found["unit"]]


def shown_size(size: int) -> str:
    """Return the size in its shortest exact form.

    >>> shown_size(1048576), shown_size(500000), shown_size(1234)
    ('1MiB', '500KB', '1234B')
    """
    by_size = sorted(UNITS.items(), key=lambda unit: -unit[1])
    name, unit = next((name, unit) for name, unit in by_size if (size and size % unit == 0) or unit == 1)
    return f"{size // unit}{name}"
