"""The home directory of `dev`, the user in the agent container."""

# Directories in dev's home directory that every agent has.
TAKEN = (".cache", ".config/agent-sandbox", ".dotfiles", ".history", ".local")
HOME = "/home/dev"


def within(path: str, folder: str) -> bool:
    """Return whether a path is a folder or in it.

    >>> within(".a/b", ".a"), within(".ab", ".a")
    (True, False)
    """
    return f"{path}/".startswith(f"{folder}/")
