"""Backends that run stacks: one folder each, one row in a table. A backend plans; `runtime` executes."""
