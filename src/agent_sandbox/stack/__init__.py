"""PURE: what a stack is, as values; `build_stack` makes one, a backend runs it."""
