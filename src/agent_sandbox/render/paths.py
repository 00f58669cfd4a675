"""Where the files of a project's stack lie in it."""

COMPOSE = ".devcontainer/docker-compose.yml"
DEVCONTAINER = ".devcontainer/devcontainer.json"
POLICY = ".devcontainer/policy.yaml"
DOTENV = ".env"
PATHS = (COMPOSE, DEVCONTAINER, POLICY, DOTENV)
