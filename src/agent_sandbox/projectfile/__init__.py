"""The project file, `.devcontainer/sandbox.yaml`: its model, its schema, edits, and what it widens. Pure."""
