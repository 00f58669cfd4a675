"""PURE: a stack as values; `build_stack` makes one, a backend runs it."""
