"""Parse a command line and find its command.

Every invocation imports this, so nothing heavy may be imported here.
"""
