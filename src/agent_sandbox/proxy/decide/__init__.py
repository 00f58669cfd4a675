"""Decide each exchange, inject and redact, write its record.

Sockets are in `front`, protocol handling in `mitm`.
"""
