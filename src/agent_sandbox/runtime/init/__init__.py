"""Render a project's stack: gather facts, compare with what exists, write."""
