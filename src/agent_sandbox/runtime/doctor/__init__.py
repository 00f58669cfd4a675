"""`agent-sandbox doctor`: a table of small checks, each a function that returns a result."""
