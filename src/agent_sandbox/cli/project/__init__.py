"""`agent-sandbox project ...`: the project file, `.devcontainer/sandbox.yaml`."""
