"""The host machine: processes, files and the user's directories."""
