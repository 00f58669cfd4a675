"""The words of the engine for which stacks are made: its name, command, variables and labels.

Other code takes them from here or from its driver, and names no engine itself.
"""

ENGINE = "Docker engine"
# The machine on which the engine runs.
HOST = "Docker host"
COMMAND = "docker compose"
# What COMMAND reads: the stack's file in a project, and the files that it uses by default, in its order.
FILE_KIND = "compose file"
STACK_FILE = "docker-compose.yml"
# The file that is the same in every clone, and includes the stack's file.
SHARED_FILE = "compose.yaml"
OWN_STACKS = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
# How the names of the variables begin that COMMAND acts on, of which none is secret; and those of all its programs.
PREFIX = "COMPOSE_"
PREFIXES = "COMPOSE|DOCKER|BUILDX|BUILDKIT"
# The variables in a project's `.env` by which COMMAND finds its files.
FILES_VARIABLE = "COMPOSE_FILE"
SEPARATOR_VARIABLE = "COMPOSE_PATH_SEPARATOR"
NAME_VARIABLE = "COMPOSE_PROJECT_NAME"
# The variable, beside SHARED_FILE, with the name of this clone's stack.
STACK_VARIABLE = "AGENT_SANDBOX_STACK"
# The engine gets no address on the bridge, so services of the host are not reachable through it.
ISOLATED = {"com.docker.network.bridge.gateway_mode_ipv4": "isolated"}
# The option of a network with the size of its largest packets.
MTU = "com.docker.network.driver.mtu"
# The file of a build context that says how to build it.
BUILD_FILE = "Dockerfile"
# The key of the project file that names its own.
BUILD_KEY = "dockerfile"
