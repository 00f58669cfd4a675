"""`agent-sandbox policy ...`: all of it works without an engine."""
