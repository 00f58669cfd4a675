"""The agents: every folder of `templates/` with an `agent.yaml`."""
