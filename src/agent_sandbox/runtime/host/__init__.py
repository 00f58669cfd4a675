"""This machine: processes, files, git, and the user's own directories."""
