"""How servers compress responses, by coding."""

from __future__ import annotations

import gzip
import zlib
from functools import partial
from typing import TYPE_CHECKING

import brotli  # type: ignore[import-untyped]
import zstandard

if TYPE_CHECKING:
    from collections.abc import Callable

PACK: dict[bytes, Callable[[bytes], bytes]] = {
    b"br": partial(brotli.compress, quality=5),  # the best takes a hundred times as long
    b"deflate": zlib.compress,
    b"gzip": gzip.compress,
    b"x-gzip": gzip.compress,
    b"zstd": zstandard.compress,
}
