"""The paths of a stack's files in the project."""

from agent_sandbox.stack.engine import SHARED_FILE, STACK_FILE

STACK = f".devcontainer/{STACK_FILE}"
# What the stack is: read by agent-sandbox alone, and written with the stack's file.
RECORD = ".devcontainer/stack.json"
DEVCONTAINER = ".devcontainer/devcontainer.json"
PROJECT_FILE = ".devcontainer/sandbox.yaml"
POLICY = ".devcontainer/policy.yaml"
DOTENV = ".env"
# The same in every clone.
SHARED = f".devcontainer/{SHARED_FILE}"
IGNORE = ".devcontainer/.gitignore"
# The values of one clone.
VALUES = ".devcontainer/.env"
# What IGNORE lists; `services` has the registries of one machine.
IGNORED = (STACK_FILE, "stack.json", ".env", "services/")
PATHS = (STACK, DEVCONTAINER, POLICY, SHARED, IGNORE, VALUES, DOTENV)
# What differs between two clones, and is not checked in.
OF_THIS_CLONE = (STACK, VALUES, DOTENV)
