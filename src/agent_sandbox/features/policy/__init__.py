"""Check, explain, test and change what the agent may reach: the policies on disk, their layers and versions."""
