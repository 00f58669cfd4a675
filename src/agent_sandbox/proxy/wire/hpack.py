"""HPACK, by which HTTP/2 packs header fields, with bounds on its table and on what is unpacked.

The encoder's table stays as small as it is at first, whatever the other side has room for: it is searched from its
beginning to its end for each field. Whoever offered to remember two GiB of fields, and had them vary, made the proxy
keep as much and spend seconds on each message.
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


class BoundedDecoder(Decoder):
    """Unpacks a block that is no longer than the fields in it may be: h2 takes a MiB, which can take a second."""

    @override
    def decode(self, data: bytes, raw: bool = False) -> Iterable[HeaderTuple]:
        if len(data) > self.max_header_list_size:
            raise OversizedHeaderListError(f"a header block of more than {self.max_header_list_size} bytes")
        if UPDATES.match(data):
            raise HPACKDecodingError("more than two updates of the table size in one header block")
        return super().decode(data, raw)
