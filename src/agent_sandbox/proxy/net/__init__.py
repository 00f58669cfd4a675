"""Connections, below any protocol: sockets, buffered reading, limits per client, fair scheduling, graceful closing.

Nothing here parses or decides.
"""
