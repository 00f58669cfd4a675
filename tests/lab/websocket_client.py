"""The parts of RFC 6455 that tests need: a handshake, its response, single frames."""

import base64
import hashlib
import socket

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def handshake(path: str = "/ws", host: str = "allowed.test") -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "Connection: keep-alive, Upgrade", "Upgrade: WebSocket"]
    lines += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def switch(stream: socket.socket) -> None:
    accept = base64.b64encode(hashlib.sha1(b"dGhlIHNhbXBsZSBub25jZQ==" + MAGIC).digest())  # noqa: S324 - RFC 6455
    stream.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: %s\r\n\r\n" % accept
    )


def frame(payload: bytes, *, masked: bool) -> bytes:
    size = bytes([len(payload)]) if len(payload) < 126 else b"\x7e" + len(payload).to_bytes(2)
    size = bytes([size[0] | (0x80 if masked else 0)]) + size[1:]
    return b"\x82" + size + (bytes(4) if masked else b"") + payload


def echo(stream: socket.socket, _: bytes) -> None:
    switch(stream)
    while data := stream.recv(65536):
        mask, payload = data[2:6], data[6:]
        stream.sendall(frame(bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload)), masked=False))
