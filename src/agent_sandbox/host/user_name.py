"""The name of the user who runs a command, for records."""

import os
from getpass import getuser


def user_name() -> str:
    """Return the user's name, or the UID if it has none."""
    try:
        return getuser()
    except (KeyError, OSError):
        return str(os.getuid())
