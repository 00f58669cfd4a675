"""The policy in force: load it, watch its files, check open connections against a new policy."""
