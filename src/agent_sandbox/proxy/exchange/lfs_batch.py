"""Hide the credentials that a git server hands out for large files: GitLab's are good for all of a user's repositories.

The client gets stars in their place. It sends them back, and the proxy replaces them with the secret, as it does with a
placeholder. A response that programs could read differently is not forwarded.
"""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from agent_sandbox.policy import Ambiguous
from agent_sandbox.policy.http.json_body import read_plain_json
from agent_sandbox.proxy.exchange.tool_list import JsonFilter, Room
from agent_sandbox.proxy.secrets.unpacking import UnpackError

MAX_OBJECTS = 50_000
# The header that git-lfs sends; the proxy takes it for a redacted secret.
AUTHORIZATION, STARS = "authorization", "Basic ********"


class BatchError(UnpackError):
    """Why the addresses of large files cannot be forwarded."""

    def __init__(self, why: object) -> None:
        super().__init__(f"its credentials for large files could not be hidden: {why}")


def batch_filter(host: str, room: Room) -> JsonFilter:
    """Return the filter for a response of this host."""
    return JsonFilter(partial(hidden, host=host), room, BatchError)


def hidden(message: bytes, host: str) -> bytes:
    """Return a batch response without the credentials for this host; those for other hosts are for one file each.

    >>> one = b'{"actions": {"download": {"href": "https://a.test/x", "header": {"Authorization": "Basic YTpi"}}}}'
    >>> hidden(b'{"objects": [' + one + b"]}", "a.test").decode().partition("header")[2]
    '": {"Authorization": "Basic ********"}}}}]}'
    """
    try:
        said = read_plain_json(message, objects=MAX_OBJECTS)
        for header in _headers(said, host):
            header |= {name: STARS for name in header if name.casefold() == AUTHORIZATION}
        return json.dumps(said, allow_nan=False).encode("ascii")
    except Ambiguous as why:
        raise BatchError(why) from why
    except (ValueError, RecursionError) as error:  # not a URL; 1e999, which was read as infinity; thousands of brackets
        raise BatchError("an invalid address or number, or too many brackets") from error


def _headers(said: object, host: str) -> Iterator[dict[str, Any]]:
    """Yield the headers for all requests to this host, wherever they are."""
    left = [said]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            header, href = one.get("header"), one.get("href")
            is_here = not isinstance(href, str) or (urlsplit(href).hostname or host).rstrip(".") == host
            if isinstance(header, dict) and is_here:
                yield header
        left += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
