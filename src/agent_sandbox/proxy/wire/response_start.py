"""Find the final response among the interim ones (1xx) before it."""

from agent_sandbox.proxy.limits import Limits
from agent_sandbox.proxy.wire.body_buffer import BodyBuffer
from agent_sandbox.proxy.wire.http1_head import BadHeadError, ResponseHead, check_response_start, parse_response

LIMITS = Limits()


class ResponseStart:
    """Reads the heads of one response. All of them count towards the limit for heads."""

    def __init__(self) -> None:
        self._interim_bytes = 0

    def read(self, buffer: BodyBuffer) -> ResponseHead | None:
        """Take the head of the final response out of `buffer`; None while it is incomplete. Raises `BadHeadError`."""
        while end := buffer.head_end():
            head = parse_response(bytes(buffer.maybe_extract_at_most(end) or b""), LIMITS)
            if not head.interim:
                return head
            self._interim_bytes += end
            _check_size(self._interim_bytes)
        check_response_start(bytes(buffer), LIMITS)
        _check_size(self._interim_bytes + len(buffer))
        return None


def _check_size(size: int) -> None:
    if size > LIMITS.response_head_bytes:
        raise BadHeadError(f"its head is larger than {LIMITS.response_head_bytes} bytes")
