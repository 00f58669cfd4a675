"""Parse a command line and find its command.

Every invocation imports this, so import nothing heavy here.
"""
