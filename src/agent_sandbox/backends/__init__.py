"""Backends that run stacks: one module each, one table. A backend plans; `runtime` executes."""
