"""An HPACK encoder whose dynamic table stays at its default size, whatever size the other side allows.

The encoder searches the whole table for each field. A peer that allows a table of 2 GiB, and makes the fields vary,
could make the proxy use that much memory and spend seconds on each message.
"""

from collections.abc import Iterable
from typing import Any, override

from hpack import Encoder
from hpack.table import HeaderTable

Fields = Iterable[Any] | dict[Any, Any]


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
