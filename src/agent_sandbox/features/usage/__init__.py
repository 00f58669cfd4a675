"""The tokens that agents used, and the sizes of what they keep."""
