"""Parsers without I/O: HTTP/1 heads and chunks, header fields, TLS ClientHello, WebSocket frames, HPACK limits.

They reject what two programs could read differently. Nothing here decides, and nothing imports mitmproxy's layers.
"""
