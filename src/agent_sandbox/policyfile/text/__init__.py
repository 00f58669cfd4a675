"""Read a YAML file: bytes, encoding, syntax, the line and column of each value, a manifest of the files read."""
