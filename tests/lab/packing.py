"""Bodies of responses: how servers compress them, by coding, and what the proxy makes of them."""

import gzip
import zlib
from collections.abc import Callable
from functools import partial

import brotli  # type: ignore[import-untyped]
import zstandard

from agent_sandbox.proxy.exchange.exchange import Meter

PACK: dict[bytes, Callable[[bytes], bytes]] = {
    b"br": partial(brotli.compress, quality=5),  # the best takes a hundred times as long
    b"deflate": zlib.compress,
    b"gzip": gzip.compress,
    b"x-gzip": gzip.compress,
    b"zstd": zstandard.compress,
}


def whole(meter: Meter, *pieces: bytes) -> bytes:
    """Return what passes of a body that arrives in these pieces."""
    return b"".join([*map(meter, pieces), *meter.rest()])
