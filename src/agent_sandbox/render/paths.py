"""The paths of a stack's files in the project."""

from agent_sandbox.stack.engine import SHARED_FILE, STACK_FILE

STACK = f".devcontainer/{STACK_FILE}"
DEVCONTAINER = ".devcontainer/devcontainer.json"
POLICY = ".devcontainer/policy.yaml"
DOTENV = ".env"
# The same in every clone.
SHARED = f".devcontainer/{SHARED_FILE}"
IGNORE = ".devcontainer/.gitignore"
# The values of one clone.
VALUES = ".devcontainer/.env"
# What IGNORE lists; `services` has the registries of one machine.
IGNORED = (STACK_FILE, ".env", "services/")
PATHS = (STACK, DEVCONTAINER, POLICY, SHARED, IGNORE, VALUES, DOTENV)
# What differs between two clones, and is not checked in.
OF_THIS_CLONE = (STACK, VALUES, DOTENV)
