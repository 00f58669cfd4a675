"""Decide each exchange, inject and redact secrets, write the audit record.

Sockets are in `front`, protocol handling in `mitm`.
"""
