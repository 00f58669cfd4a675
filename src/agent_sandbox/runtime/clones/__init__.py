"""Clones of a project in volumes: fill them from the project's repository, and bring their commits back.

The project's repository and the clone's are read by git commands that run nothing they name. What comes from a clone is
bounded, checked, and only objects and references: its settings, hooks and attributes have no effect on the host
machine.
"""
