"""The table of commands: a name and its one line of help.

The module follows from the name: `policy check` is the function `check` in `cli/policy/check.py`. So `--help` and
completion need this table alone, and a command imports no other command. Nothing heavy may be imported here.
"""

from importlib import import_module
from keyword import iskeyword
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

PROGRAM = "agent-sandbox"
SUMMARY = "Run AI coding agents with all permissions on, in a box that reaches only what policy.yaml allows."

COMMANDS: dict[str, str] = {
    "init": "Write .devcontainer/ and .env into a project.",
    "build": "Build the images that are missing or outdated.",
    "up": "Start the stack, building what is missing.",
    "trust": "Look at what a project asks for, and say yes to it.",
    "run": "Start the stack, and the agent in it.",
    "down": "Stop the stack; state and history stay.",
    "status": "Show the stack, its policy and the last denials.",
    "verify": "Try every way out of the box, from inside.",
    "shell": "Open a shell in the agent's container.",
    "exec": "Run a command in the agent's container.",
    "logs": "Show what the stack's services print.",
    "destroy": "Remove the stack with its state and history.",
    "doctor": "Check this machine and this project.",
    "version": "Print the versions of everything.",
    "completion": "Print the completion script for a shell.",
}

GROUPS: dict[str, tuple[str, dict[str, str]]] = {
    "policy": (
        "Check, explain, test and change what the agent may reach.",
        {
            "check": "Print every problem of a policy file.",
            "show": "Print the effective policy.",
            "explain": "Say whether a request is allowed, and why.",
            "test": "Try the cases that a policy has to hold.",
            "lint": "Find what is legal and yet a risk, or without effect.",
            "diff": "Say what a change opens, and what it closes.",
            "allow": "Add a rule that allows a request or a host.",
            "deny": "Add a rule that denies a request or a host.",
            "suggest": "Propose rules for what was denied.",
            "import": "Print a policy made of an allow-list or of an older policy.",
            "schema": "Print the JSON Schema of policy.yaml, for editors.",
            "services": "List, show, compare and resolve services.",
        },
    ),
    "secret": (
        "Keep what the proxy puts into requests.",
        {
            "set": "Bind a secret to the hosts that it may go to.",
            "list": "Show which secrets go where, and which are missing.",
            "remove": "Forget a secret.",
        },
    ),
    "proxy": (
        "Run, reload and watch the proxy.",
        {
            "run": "Run the proxy on this machine, in the foreground.",
            "reload": "Have the proxy read its policy again.",
            "restart": "Restart the proxy's container.",
            "logs": "Show what was allowed and denied.",
        },
    ),
}


def load(*path: str) -> "ModuleType":
    """Import the module of one command: `load("policy", "check")` is `agent_sandbox.cli.policy.check`."""
    return import_module(".".join(("agent_sandbox.cli", *map(in_python, path))))


def in_python(name: str) -> str:
    """Return what a command's module and function are called: Python has some words for itself.

    >>> in_python("check"), in_python("import")
    ('check', 'import_')
    """
    return f"{name}_" if iskeyword(name) else name


def command_path(words: "Sequence[str]") -> tuple[str, ...] | None:
    """Return the command that these words begin with.

    >>> command_path(["policy", "check", "--json"]), command_path(["up"]), command_path(["nonsense"])
    (('policy', 'check'), ('up',), None)
    """
    match tuple(words):
        case (name, *_) if name in COMMANDS:
            return (name,)
        case (group, name, *_) if group in GROUPS and name in GROUPS[group][1]:
            return (group, name)
    return None
