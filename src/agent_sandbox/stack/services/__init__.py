"""The three services of a stack, one module each."""
