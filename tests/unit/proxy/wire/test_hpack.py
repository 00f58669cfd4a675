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
def test_the_header_table_never_grows_beyond_its_initial_size(
    wanted: tuple[int, ...], got: int, told: list[int]
) -> None:
    packer = BoundedEncoder()
    for size in wanted:
        packer.header_table_size = size
    assert (packer.header_table_size, packer.table_size_changes) == (got, told)


def test_encodes_long_fields_without_huffman_coding() -> None:
    packed = BoundedEncoder().encode([(b"x", b"y" * 1_000_000)])
    assert (b"y" * 1_000_000 in packed, Decoder(2_000_000).decode(packed, raw=True)) == (
        True,
        [HeaderTuple(b"x", b"y" * 1_000_000)],
    )


def test_a_decoder_reads_encoded_fields_after_any_table_size_changes() -> None:
    packer, reader = BoundedEncoder(), Decoder()
    for size in (2**31, 0, 64, 4096, 4096):
        packer.header_table_size = size
        for number in range(3):
            fields = [(b"x", b"%d" % number), (b"y", b"same")]
            assert reader.decode(packer.encode(fields), raw=True) == [HeaderTuple(*field) for field in fields]


def test_accepts_two_table_size_updates_in_a_block() -> None:
    packed = b"\x20\x3f\xe1\x1f" + BoundedEncoder().encode([(b"x", b"y")])
    assert BoundedDecoder().decode(packed, raw=True) == [HeaderTuple(b"x", b"y")]


def test_rejects_more_than_two_table_size_updates_in_a_block() -> None:
    with pytest.raises(HPACKDecodingError, match="more than two updates"):
        BoundedDecoder().decode(b"\x20\x3f\xe1\x1f\x20\x82")


def test_rejects_a_block_longer_than_the_limit_for_its_fields() -> None:
    with pytest.raises(OversizedHeaderListError):
        BoundedDecoder(max_header_list_size=100).decode(b"\x82" * 101)
