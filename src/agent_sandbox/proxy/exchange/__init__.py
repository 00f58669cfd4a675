"""One request with its response: its state, the denial page, and the hooks that run on it."""
