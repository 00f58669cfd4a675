"""Sign a message, so that the receiver knows who sent it and when."""

import hashlib
import hmac

HEADER = "Agent-Sandbox-Signature"


def signature(key: bytes, body: bytes, *, now: int) -> str:
    """Return the value of the header: the time, and the HMAC of the time and the body.

    >>> signature(b"key", b"{}", now=1700000000)[:24]
    't=1700000000,v1=40d7aeed'
    """
    signed = hmac.new(key, b"%d." % now + body, hashlib.sha256)
    return f"t={now},v1={signed.hexdigest()}"
