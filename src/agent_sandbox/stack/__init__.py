"""PURE: a stack as values. `build_stack` makes one, a backend plans its commands, and `runtime` executes them."""
