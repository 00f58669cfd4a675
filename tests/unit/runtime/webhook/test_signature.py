import hashlib
import hmac

from agent_sandbox.runtime.webhook.signature import signature


def test_the_signature_covers_key_time_and_body() -> None:
    expected = hmac.new(b"key", b"1700000000.{}", hashlib.sha256).hexdigest()
    assert signature(b"key", b"{}", now=1_700_000_000) == f"t=1700000000,v1={expected}"
    made = {signature(key, body, now=now) for key in (b"a", b"b") for body in (b"1", b"2") for now in (1_700, 1_701)}
    assert len(made) == 8
