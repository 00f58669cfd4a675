"""Check, explain, test and change what the agent may reach."""
