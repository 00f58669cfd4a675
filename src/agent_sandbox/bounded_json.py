"""Read untrusted JSON, with a single kind of error.

`json.loads` raises RecursionError for thousands of brackets, a plain ValueError for an integer of 5,000 digits, and
takes `NaN`, which is not JSON. Here all of these are a `NotJsonError`.
"""

import json
from typing import Any, NoReturn


class NotJsonError(ValueError):
    """The text is not JSON, or beyond the limits; the message says why."""


def read_json(text: str | bytes) -> Any:  # noqa: ANN401 - any document
    """Return the value, or raise NotJsonError. The caller limits the length of the text.

    >>> read_json('{"a": [1, null]}')
    {'a': [1, None]}
    """
    try:
        return DECODER.decode(text if isinstance(text, str) else text.decode())
    except RecursionError as error:
        raise NotJsonError("nested too deeply") from error
    except (json.JSONDecodeError, UnicodeDecodeError, NotJsonError) as error:
        raise NotJsonError(str(error)) from error
    except ValueError as error:  # `int`'s own message names a Python setting
        raise NotJsonError("a number with too many digits") from error


def _refuse(name: str) -> NoReturn:
    raise NotJsonError(f"a number that JSON does not have: {name}")


DECODER = json.JSONDecoder(parse_constant=_refuse)
