"""Which agents there are: every folder of `templates/` that holds an `agent.yaml`."""
