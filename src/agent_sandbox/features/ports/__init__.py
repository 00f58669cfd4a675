"""Reach ports of the sandbox from this machine: list what listens inside, and relay connections into it."""
