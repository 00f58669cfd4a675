"""Render a stack to files: templates contain no logic, every value passes a filter, and the output is parsed back."""
