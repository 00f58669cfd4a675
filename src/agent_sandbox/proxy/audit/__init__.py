"""The audit record of each decision: how it looks, where it is written, how it is read back."""
