from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.proxy.connection.tls_records import TlsRecords

RECORD = st.binary(max_size=300).map(lambda body: b"\x17\x03\x03" + len(body).to_bytes(2) + body)


@given(st.lists(RECORD, max_size=5), st.data())
def test_finds_the_end_of_each_tls_record_however_the_data_is_split(records: list[bytes], data: st.DataObject) -> None:
    ends, whole = {0}, b"".join(records)
    for record in records:
        ends.add(max(ends) + len(record))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)))))
    followed, before = TlsRecords(), 0
    for cut in cuts:
        ended = followed.read(whole[before:cut])
        assert ended == len([end for end in ends if before < end <= cut])
        assert followed.is_at_end is (cut in ends)
        before = cut
