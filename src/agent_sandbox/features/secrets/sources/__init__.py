"""Sources of secrets on the host machine: where a value comes from, and how it is fetched."""
