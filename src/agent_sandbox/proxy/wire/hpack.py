"""The table by which HTTP/2 packs header fields: as small as it is at first, whatever the other side has room for.

It is looked through for each field from its beginning to its end. Whoever offered to remember two GiB of fields, and
had them vary, made the proxy keep as much and spend seconds on each message.
"""

from collections.abc import Iterable
from typing import Any, override

from hpack import Encoder
from hpack.table import HeaderTable

Fields = Iterable[Any] | dict[Any, Any]


class BoundedEncoder(Encoder):
    """Packs fields. The other side may have the table smaller, and not larger."""

    @override
    def encode(self, headers: Fields, huffman: bool = True) -> bytes:
        """Pack them without Huffman's code, which is made as one growing number: 200 KB of a field took seconds."""
        return super().encode(headers, huffman=False)

    @property  # type: ignore[explicit-override] # mypy sees none on a property that can be set
    @override
    def header_table_size(self) -> int:
        """How large the table may be."""
        return self.header_table.maxsize

    @header_table_size.setter
    def header_table_size(self, value: int) -> None:
        table = self.header_table
        untold, table.maxsize = table.resized, min(value, HeaderTable.DEFAULT_SIZE)
        table.resized |= untold
        if table.resized:
            # Of sizes that nothing was packed with, the smallest and the last are told (RFC 7541, 4.2).
            sizes = [*self.table_size_changes, table.maxsize]
            self.table_size_changes = list(dict.fromkeys((min(sizes), sizes[-1])))
