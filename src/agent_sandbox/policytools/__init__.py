"""The logic of the policy commands, without I/O: text and values in, text and values out."""
