from collections.abc import Callable

import pytest

from agent_sandbox.proxy.front.first_bytes import judged, whole_head
from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.wire.http1_head import BadHeadError
from agent_sandbox.proxy.wire.sniff import RawTunnelError
from memory_streams import lead_of

HEAD = b"GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n"
SHORT = Limits(head_seconds=0.05, hello_seconds=0.05, hello_bytes=4)


def after(count: int) -> Callable[[bytes], str | None]:
    return lambda data: data.decode() if len(data) >= count else None


async def test_judged_bytes_stay_readable() -> None:
    lead = lead_of(b"ab", b"cd")
    assert await judged(lead, after(3), Limits()) == "abcd"
    assert lead.ahead == b"abcd"


@pytest.mark.parametrize(
    ("pieces", "end", "reason"),
    [
        ([], True, "the client closed the connection before its first message"),
        ([b"ab"], True, "the client closed the connection during its first message"),
        ([b"ab"], False, "the client's first message did not arrive in time"),
        ([b"abcde"], False, "the client's first message is too long"),
    ],
)
async def test_a_first_message_that_cannot_be_judged_is_a_raw_tunnel(
    pieces: list[bytes], reason: str, *, end: bool
) -> None:
    with pytest.raises(RawTunnelError) as caught:
        await judged(lead_of(*pieces, end=end), after(9), SHORT)
    assert reason == str(caught.value)


async def test_whole_head_parses_the_head_and_leaves_it_readable() -> None:
    lead = lead_of(HEAD[:9], HEAD[9:], b"")
    head, end = await whole_head(lead, Limits())
    assert (head.target, head.host, end) == ("/x", "a.test", len(HEAD))
    assert lead.ahead == HEAD


async def test_closing_during_the_head_raises_connection_aborted_error() -> None:
    with pytest.raises(ConnectionAbortedError):
        await whole_head(lead_of(HEAD[:9]), Limits())


async def test_an_incomplete_head_times_out_with_408() -> None:
    with pytest.raises(BadHeadError) as caught:
        await whole_head(lead_of(HEAD[:9], end=False), SHORT)
    assert (str(caught.value), caught.value.status) == ("the request head did not arrive in time", 408)
