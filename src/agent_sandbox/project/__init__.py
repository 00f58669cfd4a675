"""A project's files: the record of its stack, what the user trusts, and rendering."""
