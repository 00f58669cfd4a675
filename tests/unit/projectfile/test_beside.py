import re
from pathlib import Path

import pytest

from agent_sandbox.images import beside_image
from agent_sandbox.problems import UserError
from agent_sandbox.projectfile.beside import DEFAULT, beside_services, build_texts
from agent_sandbox.projectfile.parsing import parse_project_file
from agent_sandbox.stack.limits import GIB, MIB, Limits
from agent_sandbox.stack.model import Healthcheck
from agent_sandbox.stack.workspace import Beside
from table_tests import each

FILE = ".devcontainer/sandbox.yaml"
NO_FILES = "write `NAME:/PATH`, a volume: a service sees no files of this machine"


def services(text: str, texts: dict[str, str] | None = None) -> tuple[Beside, ...]:
    return beside_services(parse_project_file(text, file=FILE).beside, texts or {}, file=FILE)


def test_parses_all_keys_of_a_service() -> None:
    text = """\
beside:
  db:
    build: {dockerfile: db.Dockerfile}
    user: postgres
    entrypoint: [/start]
    command: [postgres, -c, fsync=off]
    environment: {POSTGRES_DB: app, DEBUG: true, N: 3}
    volumes: ["data:/var/lib/postgresql", "run:/run/x"]
    expose: [5432, "9000/tcp"]
    healthcheck: {test: [CMD, pg_isready], interval: 1m30s, timeout: 500ms, start_period: 1h, retries: 9}
    mem_limit: 512m
    cpus: 0.5
    pids_limit: 50
    shm_size: 128m
  cache:
    image: redis:8
    user: 999:1000
    links: [db]
    healthcheck: {test: redis-cli ping}
"""
    db, cache = services(text, {"db.Dockerfile": "FROM x"})
    assert db == Beside(
        name="db",
        image=beside_image("FROM x").name,
        user="postgres",
        entrypoint=("/start",),
        command=("postgres", "-c", "fsync=off"),
        environment={"POSTGRES_DB": "app", "DEBUG": "true", "N": "3"},
        volumes=(("data", "/var/lib/postgresql"), ("run", "/run/x")),
        ports=(5432, 9000),
        healthcheck=Healthcheck(
            test=("pg_isready",), interval=90, timeout=0.5, retries=9, start_period=3600, start_interval=0.5
        ),
        limits=Limits(memory=512 * MIB, cpus=0.5, pids=50, files=16_384),
        shared_memory=128 * MIB,
    )
    assert cache == Beside(
        name="cache",
        image="redis:8",
        user="999:1000",
        links=("db",),
        healthcheck=Healthcheck(
            test=("/bin/sh", "-c", "redis-cli ping"),
            interval=10,
            timeout=5,
            retries=3,
            start_period=30,
            start_interval=0.5,
        ),
        limits=DEFAULT,
    )
    assert DEFAULT.memory == 2 * GIB


def test_reports_a_missing_build_file_with_its_service() -> None:
    text = "beside: {db: {build: {dockerfile: D}}, web: {build: {dockerfile: W}}}"
    with pytest.raises(UserError) as caught:
        build_texts(parse_project_file(text, file=FILE).beside, {"W": "FROM x", "sandbox.yaml": text}, file=FILE)
    assert str(caught.value) == f"{FILE}:1:22: `beside: db` names a file that does not exist: .devcontainer/D"


TAKEN = "is a name that the sandbox uses; use another name"
NO_IMAGE = "`image` or `build` is missing; write `image: NAME:TAG`, or `build: {dockerfile: NAME}`"
TWO_IMAGES = "`image` and `build` exclude each other; write `image: NAME:TAG`, or `build: {dockerfile: NAME}`"
NO_ROOT = "a service cannot run as root; name the image's user, such as `postgres`"
ONE_PORT = "write one number from 1 to 65535"
NO_PORTS = "write `expose: [PORT]`: the agent reaches it, and nothing is published on this machine"
WORDS = 'a list of words expected; write ["PROGRAM", "ARGUMENT"]'
TEST = 'not a health check; write a line for the shell, or ["CMD", "PROGRAM", "ARGUMENT"]'
DURATION = "write `10s`, `1m30s` or `500ms`, up to `1h`"
ONE_LINE = "is not one line of text; write it in quotes; a service gets no variables of your shell"
LINKED = "`links` names a service without `expose`: db; list its ports under its `expose`"
SIZE = "size: a number with k, m or g, as in `4g`"
RAISE = "raise `mem_limit`, or lower `shm_size`"
CIRCLE = "each service waits for those that it links to"
MANY = ", ".join(f"s{number}: {{image: debian}}" for number in range(11))


# The first column continues `{db: {image: redis, ...}}`, or is a whole section.
@each(
    ("text", "problem"),
    [
        (
            "{proxy: {image: redis}}",
            "1:10: `proxy` is a name that the sandbox uses; use another name",
        ),
        ("{My_DB: {image: redis}}", "1:10: not a service's name: 'My_DB'; use up to 30 of `a-z`, `0-9` and `-`"),
        ("{db: {expose: [1]}}", f"1:14: {NO_IMAGE}"),
        ("build: {dockerfile: D}", f"1:14: {TWO_IMAGES}"),
        ("{db: {image: --x}}", "1:22: not an image: '--x'; write `NAME:TAG` or `REGISTRY/NAME:TAG`"),
        ("{db: {build: .}}", "1:22: keys and values expected, not '.'; write `build: {dockerfile: NAME}`"),
        ("{db: {build: {dockerfile: ../D}}}", "1:35: not the name of a file: '../D'; name a file beside sandbox.yaml"),
        ("{db: {build: {dockerfile: D, context: .}}}", "1:38: unknown key 'context'; known: dockerfile"),
        ("user: root", f"1:35: {NO_ROOT}"),
        ("user: '0:0'", f"1:35: {NO_ROOT}"),
        ("user: a b", "1:35: not a user: 'a b'; write `NAME` or `UID:GID`"),
        ("expose: [53/udp]", "1:38: '53/udp': services are reached by TCP only; write 53, or remove it"),
        ("expose: ['80:80']", f"1:38: not a port: '80:80'; {ONE_PORT}"),
        ("expose: [0]", f"1:38: not a port: '0'; {ONE_PORT}"),
        ("expose: [65536]", f"1:38: not a port: '65536'; {ONE_PORT}"),
        ("expose: [true]", f"1:38: not a port: ''; {ONE_PORT}"),
        ("expose: [80, 443, '80/tcp']", "1:37: 80 is listed twice; keep one of them"),
        ("ports: ['80:80']", f"1:29: unknown key 'ports'; {NO_PORTS}"),
        ("imag: debian", "1:29: unknown key 'imag'; did you mean `image`?"),
        ("{limits: {image: redis, mem_limits: 1g}}", "1:33: unknown key 'mem_limits'; did you mean `mem_limit`?"),
        ("volumes: ['./a:/a']", f"1:39: not a volume: './a:/a'; {NO_FILES}"),
        ("volumes: ['/a:/a']", f"1:39: not a volume: '/a:/a'; {NO_FILES}"),
        ("volumes: ['a:/b/../c']", f"1:39: not a volume: 'a:/b/../c'; {NO_FILES}"),
        ("volumes: ['a:/b:ro']", f"1:39: not a volume: 'a:/b:ro'; {NO_FILES}"),
        ("volumes: ['a:/x', 'b:/x']", "1:38: two volumes at /x; keep one of them"),
        ("command: postgres", f"1:38: not a command: {WORDS}"),
        ("healthcheck: {test: [NONE]}", f"1:49: {TEST}"),
        ("healthcheck: {test: a, interval: 5}", f"1:62: not a duration: '5'; {DURATION}"),
        ("environment: {A: null}", f"1:46: the value of `A` {ONE_LINE}"),
        ("environment: {a-b: c}", "1:48: not the name of a variable: 'a-b'; use letters, digits and `_`"),
        ("environment: [A=b]", "1:42: keys and values expected, not a list"),
        ("mem_limit: 1k", "1:40: '1k' is too little"),
        ("cpus: 9999", "1:35: '9999' is too much"),
        ("mem_limit: lots", "1:40: 'lots' is not a size: a number with k, m or g, as in `4g`"),
        ("shm_size: 1k", f"1:39: '1k' is not a {SIZE}, at least `1m`"),
        ("shm_size: true", f"1:39: '' is not a {SIZE}, at least `1m`"),
        ("shm_size: 3g", f"1:14: `shm_size` is more than the memory of the service, 2g; {RAISE}"),
        ("links: [web]", "1:36: `links` names a service that does not exist: web"),
        ("{db: {image: redis}, web: {image: redis, links: [db]}}", f"1:57: {LINKED}"),
        ("expose: [1], links: [db]", f"1:49: `links` form a cycle: db -> db; {CIRCLE}"),
        (f"{{{MANY}}}", "1:9: more than 10 services; keep what the project needs"),
    ],
)
def test_reports_each_problem_of_a_service_at_its_place(text: str, problem: str) -> None:
    whole = text if text.startswith("{") else f"{{db: {{image: redis, {text}}}}}"
    with pytest.raises(UserError) as caught:
        parse_project_file(f"beside: {whole}", file="f")
    assert str(caught.value) == f"f:{problem}"


def test_a_section_with_only_comments_has_no_services() -> None:
    assert services("beside:\n  # db:\n") == ()


def test_the_example_in_the_docs_is_a_valid_project_file() -> None:
    page = (Path(__file__).parents[3] / "docs" / "beside.md").read_text("utf-8")
    (example,) = re.findall("^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert [one.name for one in services(example, {"web.Dockerfile": "FROM x"})] == ["db", "web"]
