"""Paths that the agent must not write: find them, record what they held, check that their mounts hold."""
