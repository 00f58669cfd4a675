"""PURE: a stack as values. `build_stack` makes one; an engine plans its commands and executes them."""
