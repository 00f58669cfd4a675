"""Connections, below any protocol: sockets, buffered reading, limits per client, fair scheduling, orderly closing.

Nothing here parses or decides.
"""
