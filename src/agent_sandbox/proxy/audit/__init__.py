"""Audit records: their format, where they are written, how they are read back."""
