"""Check this machine and this project: a table of small checks, each a function that returns a result."""
