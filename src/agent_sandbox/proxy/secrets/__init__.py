"""Secrets: where they are kept, how they enter a request, and how their echoes are redacted from a response."""
