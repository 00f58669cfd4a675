"""One request with its response, as our own values: what was decided, the denial page, the table of hooks."""
