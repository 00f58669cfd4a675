"""The stack of a project: make, start, stop, update and remove it, and show its state."""
