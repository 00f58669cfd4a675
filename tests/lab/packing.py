"""How servers compress responses, by coding."""

import gzip
import zlib
from collections.abc import Callable
from functools import partial

import brotli  # type: ignore[import-untyped]
import zstandard

PACK: dict[bytes, Callable[[bytes], bytes]] = {
    b"br": partial(brotli.compress, quality=5),  # the best takes a hundred times as long
    b"deflate": zlib.compress,
    b"gzip": gzip.compress,
    b"x-gzip": gzip.compress,
    b"zstd": zstandard.compress,
}
