from __future__ import annotations

import pytest
from hpack import Decoder, HeaderTuple, HPACKDecodingError, OversizedHeaderListError

from agent_sandbox.proxy.wire.hpack import BoundedDecoder, BoundedEncoder
from table_tests import each


@each(
    ("wanted", "got", "told"),
    [
        ((), 4096, []),
        ((2**31,), 4096, []),
        ((100,), 100, [100]),
        ((0, 2**31), 4096, [0, 4096]),
        ((0, 4096, 8192), 4096, [0, 4096]),
        ((50, 4096) * 1_000, 4096, [50, 4096]),
        ((50, 10, 10), 10, [10]),
    ],
)
def test_the_table_is_at_most_as_large_as_it_is_at_first(wanted: tuple[int, ...], got: int, told: list[int]) -> None:
    packer = BoundedEncoder()
    for size in wanted:
        packer.header_table_size = size
    assert (packer.header_table_size, packer.table_size_changes) == (got, told)


def test_long_fields_are_packed_without_delay() -> None:
    packed = BoundedEncoder().encode([(b"x", b"y" * 1_000_000)])
    assert (b"y" * 1_000_000 in packed, Decoder(2_000_000).decode(packed, raw=True)) == (
        True,
        [HeaderTuple(b"x", b"y" * 1_000_000)],
    )


def test_what_it_packs_is_read_whatever_sizes_were_wanted() -> None:
    packer, reader = BoundedEncoder(), Decoder()
    for size in (2**31, 0, 64, 4096, 4096):
        packer.header_table_size = size
        for number in range(3):
            fields = [(b"x", b"%d" % number), (b"y", b"same")]
            assert reader.decode(packer.encode(fields), raw=True) == [HeaderTuple(*field) for field in fields]


def test_two_updates_of_the_table_size_are_read() -> None:
    packed = b"\x20\x3f\xe1\x1f" + BoundedEncoder().encode([(b"x", b"y")])
    assert BoundedDecoder().decode(packed, raw=True) == [HeaderTuple(b"x", b"y")]


def test_more_updates_of_the_table_size_are_refused() -> None:
    with pytest.raises(HPACKDecodingError, match="more than two updates"):
        BoundedDecoder().decode(b"\x20\x3f\xe1\x1f\x20\x82")


def test_a_block_longer_than_its_fields_may_be_is_refused_unread() -> None:
    with pytest.raises(OversizedHeaderListError):
        BoundedDecoder(max_header_list_size=100).decode(b"\x82" * 101)
