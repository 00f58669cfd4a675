"""The paths of a stack's files in the project."""

COMPOSE = ".devcontainer/docker-compose.yml"
DEVCONTAINER = ".devcontainer/devcontainer.json"
POLICY = ".devcontainer/policy.yaml"
DOTENV = ".env"
PATHS = (COMPOSE, DEVCONTAINER, POLICY, DOTENV)
