"""The paths of a stack's files in the project."""

from agent_sandbox.stack.engine import STACK_FILE

STACK = f".devcontainer/{STACK_FILE}"
DEVCONTAINER = ".devcontainer/devcontainer.json"
PROJECT_FILE = ".devcontainer/sandbox.yaml"
POLICY = ".devcontainer/policy.yaml"
DOTENV = ".env"
PATHS = (STACK, DEVCONTAINER, POLICY, DOTENV)
