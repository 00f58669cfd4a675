from collections.abc import Callable

import h2.events
import pytest

from agent_sandbox.proxy.mitm.held_fields import HeldFields

type Kind = Callable[..., h2.events.Event]

REQUEST, RESPONSE, TRAILERS = h2.events.RequestReceived, h2.events.ResponseReceived, h2.events.TrailersReceived


def event(kind: Kind, stream: int, size: int) -> h2.events.Event:
    """Return an event with one header field of `size` bytes."""
    return kind(stream_id=stream, headers=[(b"x", b"y" * (size - 1))])


@pytest.mark.parametrize("kind", [REQUEST, RESPONSE, TRAILERS])
def test_counts_fields_of_all_streams_together(kind: Kind) -> None:
    held = HeldFields(limit=100)
    assert [held.exceeded_by(event(kind, stream, 50)) for stream in (1, 3, 5)] == [False, False, True]


def test_counts_header_and_trailer_fields_of_one_stream() -> None:
    held = HeldFields(limit=100)
    assert [held.exceeded_by(event(kind, 1, 60)) for kind in (REQUEST, TRAILERS)] == [False, True]


def test_released_streams_no_longer_count() -> None:
    held = HeldFields(limit=100)
    for stream in range(1, 20, 2):
        assert not held.exceeded_by(event(REQUEST, stream, 100))
        held.release(stream)


def test_releasing_an_unknown_stream_changes_nothing() -> None:
    held = HeldFields(limit=100)
    held.exceeded_by(event(REQUEST, 1, 100))
    held.release(3)
    held.release(None)
    assert held.exceeded_by(event(REQUEST, 5, 1))


def test_events_without_fields_never_exceed_the_limit() -> None:
    held = HeldFields(limit=0)
    assert not held.exceeded_by(h2.events.StreamEnded(stream_id=1))
