"""The table of commands: each name with its one line of help.

The module follows from the name and `ROOMS`: `policy check` is the function `check` in
`features/policy/commands/check.py`. So `--help` and completion need only these tables, and no command imports another.
"""

from collections.abc import Sequence
from importlib import import_module
from keyword import iskeyword
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

PROGRAM = "agent-sandbox"
SUMMARY = "Run AI coding agents with all permissions on, in a sandbox that reaches only what policy.yaml allows."

COMMANDS: dict[str, str] = {
    "init": "Write .devcontainer/ and .env into a project.",
    "agents": "List the agents, or check one.",
    "update": "Update the agents of a project to their newest versions.",
    "build": "Build the images that are missing or outdated.",
    "up": "Build missing images and start the stack.",
    "login": "Share an agent's sign-in on this machine with the sandbox.",
    "trust": "Review what a project's settings allow, and trust them.",
    "run": "Start the stack, then the agent in it.",
    "down": "Stop the stack; keep its state and history.",
    "ls": "List the stacks on this machine.",
    "usage": "Show the tokens that agents used, and their cost.",
    "status": "Show the stack, its policy and the last denials.",
    "watch": "Show requests live, and answer those that wait for you.",
    "ui": "Show requests live in a browser, and answer there.",
    "diff": "Show what the commits of a clone change.",
    "fetch": "Bring the commits of a clone into the project.",
    "review": "Show what the agent changed that would run outside.",
    "verify": "Try every way out of the sandbox, from inside.",
    "shell": "Open a shell in the agent container.",
    "exec": "Run a command in the agent container.",
    "cp": "Copy files between this machine and the sandbox.",
    "ports": "Reach ports of the sandbox from this machine.",
    "logs": "Show allowed and denied requests, or containers' output.",
    "destroy": "Remove the stack with its state and history.",
    "prune": "Remove what no project uses any more.",
    "doctor": "Check this machine and this project.",
    "version": "Print the versions of everything.",
    "completion": "Print the completion script for a shell.",
}

GROUPS: dict[str, tuple[str, dict[str, str]]] = {
    "policy": (
        "Check, explain, test and change what the agent may reach.",
        {
            "check": "Report every problem in a policy file.",
            "show": "Print the effective policy.",
            "explain": "Show whether a request is allowed, and why.",
            "test": "Run the test cases of a policy.",
            "lint": "Find entries that are valid but risky or useless.",
            "diff": "Show what a change allows and what it stops.",
            "allow": "Add a rule that allows a request or a host.",
            "deny": "Add a rule that denies a request or a host.",
            "suggest": "Suggest rules for denied requests.",
            "learn": "Record what a task needs, then add rules for it.",
            "import": "Convert an allow-list or an older policy, and print it.",
            "schema": "Print the JSON Schema of policy.yaml, for editors.",
            "services": "List, show, compare and resolve services.",
        },
    ),
    "project": (
        "Check what the project file says the sandbox is made of.",
        {
            "check": "Report every problem in the project file.",
            "schema": "Print the JSON Schema of sandbox.yaml, for editors.",
        },
    ),
    "secret": (
        "Manage the secrets that the proxy injects.",
        {
            "setup": "Set the API key or git token of a service.",
            "set": "Store a secret and bind it to hosts.",
            "list": "List the secrets and their hosts, and which are missing.",
            "test": "Send a harmless request with a secret.",
            "sync": "Fetch secrets from their sources.",
            "remove": "Remove a secret.",
        },
    ),
    "traffic": (
        "Search and export what the proxy allowed and denied.",
        {
            "list": "List requests; `traffic` alone does this.",
            "top": "List hosts by requests, denials and bytes.",
            "show": "Show everything about one request.",
            "export": "Write a HAR file or an SQLite database.",
            "metrics": "Print or serve metrics for Prometheus.",
            "spans": "Send spans to OpenTelemetry.",
        },
    ),
    "proxy": (
        "Run, reload and watch the proxy.",
        {
            "run": "Run the proxy on this machine, in the foreground.",
            "reload": "Reload the policy into the running proxy.",
            "restart": "Restart the proxy container.",
            "logs": "Show allowed and denied requests.",
        },
    ),
}

# The room of each command or group, below `features/`.
ROOMS: dict[str, str] = {
    "agents": "stack",
    "build": "stack",
    "cp": "copying",
    "destroy": "stack",
    "diff": "clones",
    "doctor": "doctor",
    "down": "stack",
    "exec": "session",
    "fetch": "clones",
    "init": "stack",
    "login": "secrets",
    "logs": "traffic",
    "ls": "stack",
    "policy": "policy",
    "ports": "ports",
    "project": "stack",
    "proxy": "proxy",
    "prune": "stack",
    "review": "review",
    "run": "session",
    "secret": "secrets",
    "shell": "session",
    "status": "stack",
    "traffic": "traffic",
    "trust": "trust",
    "ui": "watch",
    "up": "stack",
    "update": "stack",
    "usage": "usage",
    "verify": "doctor",
    "version": "doctor",
    "watch": "watch",
}

# The default commands of groups: `traffic --denied` is `traffic list --denied`.
DEFAULTS: dict[str, str] = {"traffic": "list"}

# Commands of other programs, and the command to use here.
EDITED = (
    "agent-sandbox policy allow adds a rule; after an edit of .devcontainer/policy.yaml: agent-sandbox proxy reload"
)
SETTINGS = "edit .devcontainer/sandbox.yaml; agent-sandbox project check checks it, agent-sandbox init applies it"
RELOAD = "agent-sandbox proxy reload loads the edited policy"
OTHER_WORDS: dict[str, str] = {
    "allow": "agent-sandbox policy allow adds a rule to the policy",
    "attach": "agent-sandbox shell opens a shell in the container; agent-sandbox run starts the agent",
    "clone": "agent-sandbox run --clone works on a clone; agent-sandbox ls lists clones",
    "config": SETTINGS,
    "create": "agent-sandbox init writes a stack into a project; agent-sandbox run AGENT also starts it",
    "deny": "agent-sandbox policy deny adds a rule to the policy",
    "edit": EDITED,
    "merge": "agent-sandbox fetch brings the commits of a clone as branches; git merge merges one",
    "policy edit": EDITED,
    "policy reload": RELOAD,
    "ps": "agent-sandbox ls lists all stacks; agent-sandbox status shows the one of this project",
    "restart": "agent-sandbox down, then agent-sandbox up; agent-sandbox proxy restart, for the proxy alone",
    "reload": RELOAD,
    "rm": "agent-sandbox destroy removes a stack with its state; agent-sandbox down only stops it",
    "start": "agent-sandbox up starts the stack; agent-sandbox run also starts the agent",
    "stop": "agent-sandbox down stops the stack",
}

# Options that only `init` has, after these commands, and what to use.
BUILDING = frozenset({"up", "run", "build", "update", "agents"})
OPTIONS_OF_INIT: dict[str, str] = {
    "--base-image": "agent-sandbox init --base-image IMAGE sets it for this project, AGENT_SANDBOX_BASE_IMAGE in the"
    " environment for all projects of this machine that name none",
}


def with_default(argv: Sequence[str]) -> list[str]:
    """Return the arguments with the default command of their group, if they name none.

    >>> with_default(["traffic", "--denied"]), with_default(["traffic", "--help"]), with_default(["traffic", "top"])
    (['traffic', 'list', '--denied'], ['traffic', '--help'], ['traffic', 'top'])
    """
    group, *words = argv or [""]
    if group in DEFAULTS and not (words and (words[0] in ("--help", "-h") or not words[0].startswith("-"))):
        return [group, DEFAULTS[group], *words]
    return [*argv]


def with_separator(argv: Sequence[str]) -> list[str]:
    """Return the arguments with the first `--` doubled where the command needs to know where it was.

    Parsers drop one. What follows it is for the program that the command starts, so a mistyped word before it is not.

    >>> with_separator(["run", "AGENT", "--", "-p"]), with_separator(["exec", "--", "ls"])
    (['run', 'AGENT', '--', '--', '-p'], ['exec', '--', 'ls'])
    """
    if argv[:1] == ["run"] and "--" in argv:
        place = argv.index("--")
        return [*argv[:place], "--", *argv[place:]]
    return [*argv]


def without_help_word(argv: Sequence[str]) -> list[str]:
    """Return the arguments with `help policy check` written as `policy check --help`."""
    return [*argv[1:], "--help"] if argv[:1] == ["help"] else [*argv]


def unknown_word(argv: Sequence[str]) -> str | None:
    """Return the error for a command of another program, or for an option that only `init` has."""
    for words in (" ".join(argv[:1]), " ".join(argv[:2])):
        if words in OTHER_WORDS:
            return f"error: unknown command `{words}`\n  hint: {OTHER_WORDS[words]}"
    match tuple(argv):
        case (word, option, *_) if word in BUILDING and (hint := OPTIONS_OF_INIT.get(option.partition("=")[0])):
            return f"error: `{word}` has no option `{option.partition('=')[0]}`\n  hint: {hint}"
    return None


def load(*path: str) -> "ModuleType":
    """Import the module of one command: `load("policy", "check")` is `features/policy/commands/check.py`."""
    first, name = path[0], in_python(path[-1])
    room = f"features.{ROOMS[first]}.commands" if first in ROOMS else "cli"
    return import_module(f"agent_sandbox.{room}.{name}")


def in_python(name: str) -> str:
    """Return the name of a command's module and function; Python keywords get an underscore.

    >>> in_python("check"), in_python("import")
    ('check', 'import_')
    """
    return f"{name}_" if iskeyword(name) else name


def command_path(words: Sequence[str]) -> tuple[str, ...] | None:
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
