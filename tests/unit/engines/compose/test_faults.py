from agent_sandbox.engines.compose.faults import FAULTS, problem_of
from agent_sandbox.problems import Problem
from table_tests import each

# Messages of Docker (Engine 20.10 to 29, compose 2.26), and the beginning of the problem for each.
SAID = {
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n": (
        "unix:///var/run/docker.sock: the Docker daemon does not answer; sudo systemctl start docker"
    ),
    "failed to connect to the docker API at unix:///var/run/docker.sock; check if the path is correct and if the daemon"
    " is running: dial unix /var/run/docker.sock: connect: no such file or directory": (
        "unix:///var/run/docker.sock: the Docker daemon does not answer; sudo systemctl start docker"
    ),
    "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock: Get"
    ' "http://%2Fvar%2Frun%2Fdocker.sock/v1.45/info": dial unix /var/run/docker.sock: connect: permission denied': (
        "unix:///var/run/docker.sock: no permission to use the Docker daemon; sudo usermod -aG docker $USER"
    ),
    'Failed to initialize: unable to resolve docker endpoint: context "nope": context not found: open /m.json': (
        'docker: the Docker context "nope" does not exist; docker context use default'
    ),
    'error during connect: Get "http://foo:2375/v1.50/containers/json": dial tcp: lookup foo: no such host': (
        "docker: cannot reach the Docker daemon: tcp: lookup foo: no such host; check DOCKER_HOST; docker context ls"
    ),
    'error during connect: Get "http://docker.example.com/v1.50/info": command [ssh -- h docker system dial-stdio] has'
    " exited with exit status 255: stderr=ssh: connect to host h port 1: Connection refused": (
        "docker: cannot reach the Docker daemon: ssh: connect to host h port 1: Connection refused; ssh to that machine"
    ),
    "Error response from daemon: client version 1.52 is too new. Maximum supported API version is 1.45": (
        "docker: the docker command does not match the Docker daemon (API 1.52 is too new for 1.45)"
    ),
    "client version 1.22 is too old. Minimum supported API version is 1.44, please upgrade your client": (
        "docker: the docker command does not match the Docker daemon (API 1.22 is too old for 1.44)"
    ),
    "Error response from daemon: --storage-opt is supported only for overlay over xfs with 'pquota' mount option": (
        "limits.disk: this Docker engine cannot limit disk space: its data is not on xfs with the mount option pquota; "
        "remove `disk` from the limits in sandbox.yaml"
    ),
    "Error response from daemon: create app_history: quota size requested but no quota support": (
        "limits.disk: this Docker engine cannot limit disk space: its data is not on xfs with the mount option pquota; "
        "remove `disk` from the limits in sandbox.yaml"
    ),
    "write /var/lib/docker/tmp/x: no space left on device": "disk: no space left on the disk that Docker uses",
    "runc create failed: unable to start container process: error setting rlimits for ready process: "
    "error setting rlimit type 7: operation not permitted: unknown": (
        "docker: this Docker engine cannot give a container as many open files as the stack needs"
    ),
    "driver failed programming external connectivity: Bind for 127.0.0.1:8080 failed: port is already allocated": (
        "127.0.0.1:8080: the port is already in use; stop the program that listens there"
    ),
    "Error starting userland proxy: listen tcp4 0.0.0.0:80: bind: address already in use": (
        "0.0.0.0:80: the port is already in use"
    ),
    "failed to create network x: Error response from daemon: Pool overlaps with other one on this address space": (
        ".devcontainer/docker-compose.yml: the stack's subnet is in use by another Docker network; `agent-sandbox"
    ),
    "Error response from daemon: all predefined address pools have been fully subnetted": (
        "docker: Docker has no subnet left for another network"
    ),
    "Error response from daemon: could not find an available, non-overlapping IPv4 address pool "
    "among the defaults to assign to the network": ("docker: Docker has no subnet left for another network"),
    "ERROR: BuildKit is enabled but the buildx component is missing or broken.": (
        "docker: the docker command has no buildx, which builds the images"
    ),
    "docker: 'compose' is not a docker command.\nSee 'docker --help'": "docker: the docker command has no compose v2",
    "The command 'docker' could not be found in this WSL 2 distro.\nWe recommend to activate the WSL integration": (
        "docker: Docker Desktop is not connected to this WSL 2 distribution; sudo apt install docker.io"
    ),
    "docker: unknown command: docker compose": "docker: the docker command has no compose v2",
    "unknown flag: --project-name\nSee 'docker --help'.": "docker: the docker command has no compose v2",
    "Error response from daemon: pull access denied for agent-sandbox/proxy, repository does not exist": (
        "agent-sandbox/proxy: the image does not exist; agent-sandbox build"
    ),
    "Error response from daemon: No such image: agent-sandbox/proxy:0.1.0": (
        "agent-sandbox/proxy:0.1.0: the image does not exist; agent-sandbox build"
    ),
    " db Pulling \n db Error manifest unknown\nError response from daemon: manifest unknown": (
        "db: the registry does not have its image; check the name and the tag of `image` in sandbox.yaml"
    ),
    'Image registry.test/x:1 Error failed to resolve reference "registry.test/x:1": registry.test/x:1: not found': (
        "registry.test/x:1: the registry does not have its image; check the name and the tag of `image` in sandbox.yaml"
    ),
    " db Error pull access denied for x, repository does not exist or may require 'docker login'": (
        "db: the registry denied access to its image, or does not have it; check `image` in sandbox.yaml"
    ),
    " db Pulling \n db Error unauthorized\nError response from daemon: unauthorized": (
        "db: the registry denied access to its image, or does not have it; check `image` in sandbox.yaml"
    ),
    " db Pulling \n db Error denied\n": (
        "db: the registry denied access to its image, or does not have it; check `image` in sandbox.yaml"
    ),
    " db Pulling \nno matching manifest for linux/amd64 in the manifest list entries": (
        "beside: the image of a service does not support this machine's platform (linux/amd64); choose another tag"
    ),
    " db Error toomanyrequests: You have reached your pull rate limit.\n": (
        "db: the registry's limit on pulls is reached; wait, or sign in"
    ),
    ' db Error Get "http://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: connect: connection refused\nError response': (
        'db: its image cannot be pulled: Get "http://127.0.0.1:1/v2/": dial tcp 127.0.0.1:1: connect: connection'
        " refused; the Docker engine pulls it"
    ),
    " db Error received unexpected HTTP status: 500 Internal Server Error\n": (
        "db: its image cannot be pulled: received unexpected HTTP status: 500 Internal Server Error; the Docker engine"
    ),
    'Error response from daemon: invalid mount config for type "bind": bind source path does not exist: /a b/x\n': (
        "/a b/x: it was protected, but no longer exists; restore it, or run agent-sandbox init"
    ),
    "validating /p/.devcontainer/docker-compose.yml: services.agent Additional property x is not allowed": (
        "/p/.devcontainer/docker-compose.yml: services.agent Additional property x is not allowed"
    ),
}


@each(("said", "expected"), SAID.items())
def test_docker_errors_become_problems(said: str, expected: str) -> None:
    assert str(problem_of(said, doing="x"))[: len(expected)] == expected


def test_the_samples_cover_every_fault_of_the_table() -> None:
    met = {next(fault.what for fault in FAULTS if fault.found_in(said)) for said in SAID}
    assert met == {fault.what for fault in FAULTS}


def test_quotes_the_last_lines_of_an_unknown_error() -> None:
    said = "\n".join(f"line {number}" for number in range(20))
    expected = Problem(
        where="starting the stack",
        what="docker failed: " + "\n  ".join(f"line {number}" for number in range(8, 20)),
        hint="run agent-sandbox doctor to find the cause",
    )
    assert problem_of(said, doing="starting the stack") == expected


def test_reports_an_error_without_output() -> None:
    assert problem_of(" \n", doing="x").what == "docker failed: no output"
