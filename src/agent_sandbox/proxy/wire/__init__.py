"""Parsers without I/O: HTTP/1 heads and chunks, header fields, TLS ClientHello, WebSocket frames, HPACK bounds.

What two servers could read differently is refused here. Nothing here decides, and nothing imports mitmproxy's layers.
"""
