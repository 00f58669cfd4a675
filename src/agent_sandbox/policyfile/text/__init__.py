"""Read a YAML file: bytes, encoding, syntax, the place of each value, and a manifest of the files that were read."""
