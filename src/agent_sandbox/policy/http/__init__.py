"""The parts of a request: their canonical forms, size limits, conditions on them, and forbidden addresses."""
