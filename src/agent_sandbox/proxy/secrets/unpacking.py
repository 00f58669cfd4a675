"""Decompress a response while it streams, so that echoes in it can be found. What a few bytes may become is bounded."""

import asyncio
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Protocol

from agent_sandbox.proxy.limits import STEP_BYTES

# Text rarely shrinks to less than a thirtieth. What expands more may be a bomb.
MOST_TIMES, SPARE = 100, 1 << 20
# The unused allowance is capped: otherwise, after megabytes that hardly expanded, one piece could become gigabytes.
# While a client does not read, we hold what its last piece became, so all bodies together have a limit, too.
MOST_SPARE, LEAST_SPARE, ALL_SPARE = 4 << 20, 1 << 19, 128 << 20
# Compressed bytes that are decompressed at once.
PIECE = 4_096
MAX_WINDOW = 8 << 20  # of zstd, as browsers allow
# What a decoder keeps while its response is open, by coding; zlib's is small. All together keep a limited amount.
WINDOWS = {b"br": 16 << 20, b"zstd": MAX_WINDOW}
ALL_WINDOWS = 256 << 20
# How many responses wait for a decoder at once, and how long: no client makes another one wait longer than a second.
MOST_WAITING, WAIT_SECONDS = 64, 1.0


class UnpackError(ValueError):
    """Why a body cannot be decompressed, or not read after that."""

    def __init__(self, why: str = "its body is not compressed as it says") -> None:
        super().__init__(why)


class Stage(Protocol):
    """A part of what a body passes through."""

    def feed(self, data: bytes) -> Iterable[bytes]:
        """Yield what can be passed on now, in steps of bounded work: at least one. May raise UnpackError, as `end`."""

    def end(self) -> bytes:
        """Return the rest."""


class Unpacker(Protocol):
    """One compressed stream."""

    def read(self, data: bytes) -> Iterator[bytes]:
        """Yield what the data decompresses to, a step's bytes at a time if it can. Raises UnpackError."""

    @property
    def ended(self) -> bool:
        """Whether the stream is complete."""


class _Zlib:
    def __init__(self, window: int) -> None:
        self._stream = zlib.decompressobj(window)

    def read(self, data: bytes) -> Iterator[bytes]:
        try:
            while read := self._stream.decompress(data, STEP_BYTES):
                yield read
                data = self._stream.unconsumed_tail
        except zlib.error as error:
            raise UnpackError from error
        if self._stream.unused_data:
            raise UnpackError

    @property
    def ended(self) -> bool:
        return self._stream.eof


class _Brotli:
    def __init__(self) -> None:
        import brotli  # type: ignore[import-untyped] # noqa: PLC0415 - few servers compress what should not be

        self._stream, self._error = brotli.Decompressor(), brotli.error

    def read(self, data: bytes) -> Iterator[bytes]:
        try:
            while piece := self._stream.process(data, output_buffer_limit=STEP_BYTES):
                yield piece
                data = b""  # only get the rest of the output: brotli could hold back 4 MiB, and return it at once later
        except self._error as error:
            raise UnpackError from error

    @property
    def ended(self) -> bool:
        return bool(self._stream.is_finished())


class _Zstd:
    def __init__(self) -> None:
        import zstandard  # noqa: PLC0415 - as above

        self._error = zstandard.ZstdError
        self._stream = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW).decompressobj()

    def read(self, data: bytes) -> Iterator[bytes]:
        # Four bytes can expand to a block of 128 KiB, and one call has no limit for its output: feed it little at once.
        for at in range(0, len(data), 64):
            try:
                yield self._stream.decompress(data[at : at + 64])
            except self._error as error:
                raise UnpackError from error
        if self._stream.unused_data:
            raise UnpackError

    @property
    def ended(self) -> bool:
        return bool(self._stream.eof)


UNPACKERS: dict[bytes, Callable[[], Unpacker]] = {
    b"br": _Brotli,
    b"deflate": lambda: _Zlib(zlib.MAX_WBITS),
    b"gzip": lambda: _Zlib(zlib.MAX_WBITS | 16),
    b"x-gzip": lambda: _Zlib(zlib.MAX_WBITS | 16),
    b"zstd": _Zstd,
}


def _in_steps(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in pieces of one size, except the last, which may be empty."""
    held = bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= STEP_BYTES:
            yield bytes(held[:STEP_BYTES])
            del held[:STEP_BYTES]
    yield bytes(held)


class OpenUnpackings:
    """How many bodies are decompressed at the moment, and what their decoders keep, in bytes."""

    def __init__(self) -> None:
        self.count = self.windows = 0
        self.waiting = deque[Unpacking]()

    def let_in(self) -> None:
        """Start those that wait, in their order, while there is room."""
        for one in self.waiting:
            if not one.start():
                return


class Unpacking:
    """Decompresses a body within bounds. `beside` counts all that are open: if there are many, each gets less."""

    def __init__(self, coding: bytes, beside: OpenUnpackings | None = None) -> None:
        self._beside = OpenUnpackings() if beside is None else beside
        self._window = WINDOWS.get(coding, 0)
        self._spare = SPARE
        self._coding = coding
        self._unpacker: Unpacker | None = None
        self._is_settled = asyncio.Event()  # started, or closed before that
        if not (self._window and self._beside.waiting):
            self.start()

    def start(self) -> bool:
        """Make the decoder if there is room for it; return False if it still has to wait."""
        if self._is_settled.is_set():
            return True
        if self._beside.windows + self._window > ALL_WINDOWS:
            return False
        self._is_settled.set()
        self._unpacker = UNPACKERS[self._coding]()
        self._beside.count += 1
        self._beside.windows += self._window
        return True

    async def ready(self) -> None:
        """Wait for a decoder, first come, first served; without one, `feed` fails."""
        waiting = self._beside.waiting
        if self._is_settled.is_set() or len(waiting) >= MOST_WAITING:
            return
        waiting.append(self)
        self._beside.let_in()
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_settled.wait(), WAIT_SECONDS)
        finally:
            waiting.remove(self)
            self._beside.let_in()

    def close(self) -> None:
        """Free the decoder. Nothing more can be decompressed."""
        self._is_settled.set()
        if self._unpacker is not None:
            self._unpacker = None
            self._beside.count -= 1
            self._beside.windows -= self._window
            self._beside.let_in()

    __del__ = close

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the next decompressed bytes. Raises UnpackError for data that is not valid or expands too much."""
        for at in range(0, len(data), PIECE):
            piece = data[at : at + PIECE]
            if self._unpacker is None:
                raise UnpackError("the proxy decompresses too many other responses")
            most = min(MOST_SPARE, max(LEAST_SPARE, ALL_SPARE // self._beside.count))
            self._spare = min(self._spare + MOST_TIMES * len(piece), most)
            yield from _in_steps(self._within_bounds(self._unpacker.read(piece)))

    def _within_bounds(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._spare -= len(piece)
            if self._spare < 0:
                raise UnpackError(f"its body is more than {MOST_TIMES} times as large decompressed")
            yield piece

    def end(self) -> bytes:
        """Return nothing. Raise UnpackError if the stream is not complete."""
        if self._unpacker is None or not self._unpacker.ended:
            raise UnpackError("its compressed body is not complete")
        return b""
