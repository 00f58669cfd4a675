"""Clones of a project, each with its own stack: make one, bring back its commits, throw it away.

The project's repository and the clone's are read by git commands that run nothing they name. What comes from a clone is
untrusted.
"""
