"""Byte streams over open connections, with or without TLS, and the rules for sharing server connections.

Used by `lane` and `mitm`.
"""
