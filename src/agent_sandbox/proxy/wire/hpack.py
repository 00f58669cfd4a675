"""HPACK, the header compression of HTTP/2, with bounds on its table and on what is decompressed.

The encoder's dynamic table stays at its default size, whatever size the other side allows. The encoder searches the
whole table for each field: a peer that allows a table of 2 GiB, and makes the fields vary, could make the proxy use
that much memory and spend seconds on each message.
"""

import re
from collections.abc import Iterable
from typing import Any, override

from hpack import Decoder, Encoder, HeaderTuple, HPACKDecodingError, OversizedHeaderListError
from hpack.table import HeaderTable

Fields = Iterable[Any] | dict[Any, Any]
# An encoder sends at most two updates of the table size at once: the smallest and the last (RFC 7541, 4.2).
UPDATES = re.compile(rb"(?:[\x20-\x3e]|\x3f[\x80-\xff]*+[\x00-\x7f]){3}")


class BoundedEncoder(Encoder):
    """Encodes header fields. The other side can only make the table smaller."""

    @override
    def encode(self, headers: Fields, huffman: bool = True) -> bytes:
        """Encode without Huffman coding: the library is quadratic there, and took seconds for a field of 200 KB."""
        return super().encode(headers, huffman=False)

    @property  # type: ignore[explicit-override] # mypy sees none on a property that can be set
    @override
    def header_table_size(self) -> int:
        """The maximum size of the dynamic table in bytes."""
        return self.header_table.maxsize

    @header_table_size.setter
    def header_table_size(self, value: int) -> None:
        table = self.header_table
        pending, table.maxsize = table.resized, min(value, HeaderTable.DEFAULT_SIZE)
        table.resized |= pending
        if table.resized:
            # Of several size changes between two header blocks, signal the smallest and the last (RFC 7541, 4.2).
            sizes = [*self.table_size_changes, table.maxsize]
            self.table_size_changes = list(dict.fromkeys((min(sizes), sizes[-1])))


class BoundedDecoder(Decoder):
    """Unpacks a block that is no longer than the fields in it may be: h2 takes a MiB, which can take a second."""

    @override
    def decode(self, data: bytes, raw: bool = False) -> Iterable[HeaderTuple]:
        if len(data) > self.max_header_list_size:
            raise OversizedHeaderListError(f"a header block of more than {self.max_header_list_size} bytes")
        if UPDATES.match(data):
            raise HPACKDecodingError("more than two updates of the table size in one header block")
        return super().decode(data, raw)
