"""Find a project's stack, and what the user trusts in it."""
