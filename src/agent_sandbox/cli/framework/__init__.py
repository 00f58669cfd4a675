"""Parse a command line and find its command."""
