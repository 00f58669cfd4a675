"""From a stack to files: templates hold the shape, every value passes a filter, the output is parsed back."""
