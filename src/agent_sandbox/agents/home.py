"""The home directory of `dev`, the user in the agent container."""

# Directories in dev's home directory that every agent has.
TAKEN = (".cache", ".config/agent-sandbox", ".dotfiles", ".history", ".local")
HOME = "/home/dev"
