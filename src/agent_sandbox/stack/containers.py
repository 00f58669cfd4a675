"""What the containers of a stack are called, and what commands use in them: programs, paths, variables, volumes.

Commands on a running stack import this, and not the services, which describe how the containers are made.
"""

# The agent's container.
WORKSPACE = "/workspace"
PROTECTED = "AGENT_SANDBOX_PROTECTED"  # the variable that lists the protected paths and their access
CLONE = "workspace"  # the key of the volume of a clone
# What the agent sees in place of a masked file.
NOTHING = "/dev/null"
PROGRAMS = "/usr/local/lib/agent-sandbox"
HEALTHY = f"{PROGRAMS}/healthy"  # prints a line for each protected path that lost its mount
ENTER = f"{PROGRAMS}/enter"  # runs a command, unless one has
OPEN_URL = f"{PROGRAMS}/open-url"  # $BROWSER on a terminal
SESSION = "AGENT_SANDBOX_SESSION"  # the variable that gives `ENTER` the session's name
PASS_SIGNAL = f"{PROGRAMS}/pass-signal"  # sends a signal to the command of a session
PROBE = f"{PROGRAMS}/probe.py"  # tries every way out
REPROTECT = f"{PROGRAMS}/reprotect.py"  # protects files again, from another container
HIDE = "hide:"  # before the SHA-256 of a file for `REPROTECT`: the agent sees an empty one
SETUP = f"{PROGRAMS}/setup_once.py"  # runs the project's setup script once in each container
# The proxy's.
PROGRAM = ("/opt/agent-sandbox/venv/bin/python", "-P", "-m", "agent_sandbox.proxy")
# The uid of the image's user, which owns the volumes.
PROXY_USER = "10001:10001"
SECRETS_KEY, LOG_KEY = "secrets", "log"  # the keys of the volumes
STATE = "/state"
CONTROL = f"{STATE}/run/control.sock"
LOG = f"{STATE}/log/traffic.jsonl"
SECRETS = f"{STATE}/secrets"
# The firewall's.
REFUSALS = "/usr/local/lib/agent-sandbox/refusals"  # prints what the firewall refused
# With a service's name, the name of its firewall. No service has a `.` in its name.
FIREWALL = "firewall."


def is_beside(service: str) -> bool:
    """Return whether a container of a stack is a service beside the sandbox, by its name.

    >>> is_beside("db"), is_beside("firewall.db"), is_beside("agent")
    (True, False, False)
    """
    return service not in {"proxy", "firewall", "agent"} and not service.startswith(FIREWALL)
