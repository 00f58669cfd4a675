"""Secrets: store them, inject them into requests, redact their echoes from responses."""
