"""Edit a policy file in place and keep every other character."""
