"""Read a YAML text: bytes, encoding, syntax, the place of each value, and a manifest of every file that was read."""
