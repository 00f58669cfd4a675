"""`agent-sandbox policy ...`: none of these commands needs a Docker engine, except `suggest` without a file."""
