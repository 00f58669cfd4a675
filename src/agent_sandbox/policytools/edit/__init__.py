"""Edit a policy file in place, without changing any other character."""
