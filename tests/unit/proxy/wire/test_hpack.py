from __future__ import annotations

from hpack import Decoder, HeaderTuple

from agent_sandbox.proxy.wire.hpack import BoundedEncoder
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
