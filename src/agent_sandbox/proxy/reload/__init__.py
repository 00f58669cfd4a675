"""The policy in force: load it, watch its files, move open connections from the old policy to the new one."""
