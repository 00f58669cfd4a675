"""Explain a decision, point at what differed, propose the fix, and run a policy's own test cases."""
