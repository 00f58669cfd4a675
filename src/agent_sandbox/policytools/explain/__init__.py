"""Explain a decision, mark what differs, suggest a fix, and run the tests of a policy."""
