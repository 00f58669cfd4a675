"""TLS ClientHellos, byte by byte."""


def hello(*names: bytes) -> bytes:
    """Return a hello whose SNI holds these names."""
    listed = b"".join(b"\0" + len(name).to_bytes(2) + name for name in names)
    content = len(listed).to_bytes(2) + listed
    extensions = b"\0\0" + len(content).to_bytes(2) + content if names else b""
    body = b"\x03\x03" + bytes(32) + b"\0\0\x02\x13\x01\x01\0" + len(extensions).to_bytes(2) + extensions
    message = b"\x01" + len(body).to_bytes(3) + body
    return b"\x16\x03\x01" + len(message).to_bytes(2) + message
