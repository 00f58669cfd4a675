from agent_sandbox.projectfile.parsing import parse_project_file
from agent_sandbox.projectfile.widening import widens
from table_tests import each

DIGEST = f"postgres:17@sha256:{'0' * 64}"
PULLED = "runs postgres:17, pulled from its registry; without a digest, it can change"
DB = "db: {image: a, expose: [1], links: [x], mem_limit: 1g, environment: {A: b}}, x: {image: a, expose: [2]}"


@each(
    ("now", "before", "lines"),
    [
        ("", "", ()),
        ("name: a\nide: none", "", ()),
        ("agents: [a, b]", "agents: [a]", ("agents: b",)),
        ("agents: [a]", "agents: [a, b]", ()),
        ("packages: [golang, tree]", "packages: [tree]", ("packages: Debian's golang",)),
        ("packages: [tree]", "packages: [tree, golang]", ()),
        ("tools: {npm: [a], pip: [b]}", "", ("tools: from npm a", "tools: from PyPI b")),
        ("tools: {npm: [a@2]}", "tools: {npm: [a@1]}", ("tools: from npm a@2",)),
        ("dockerfile: D", "", ("dockerfile: builds the image with D, which follows",)),
        ("", "dockerfile: D", ()),
        ("base_image: debian:13", "", ("base_image: builds the image on debian:13",)),
        ("base_image: a", "base_image: b", ("base_image: builds the image on a",)),
        ("", "base_image: b", ()),
        (
            "agent_versions: {a: 1.2.4, b: 1.0.0}",
            "agent_versions: {a: 1.2.3, b: 1.0.0}",
            ("agent_versions: a 1.2.4, from npm",),
        ),
        ("", "agent_versions: {a: 1.2.3}", ()),
        ("setup: a/b.sh", "", ("setup: runs a/b.sh in each new container; its text follows",)),
        ("setup: a/b.sh", "setup: a/b.sh", ()),
        ("", "setup: a/b.sh", ()),
        ("mounts: [{path: ../a}]", "", ("mounts: ../a, read-only",)),
        (
            "mounts: [{path: ../a, read_only: false}]",
            "mounts: [{path: ../a}]",
            ("mounts: ../a, which the agent can write",),
        ),
        ("", "mounts: [{path: ../a}]", ()),
        ("mask: [a]", "mask: [a, b]", ("mask: no longer hides b",)),
        ("mask: [a, b]", "mask: [a]", ()),
        ("environment: {A: x, B: 1}", "environment: {A: z, B: 1}", ("environment: A=x",)),
        (
            "mcp: {a: {command: x, args: ['y z'], env: {B: c}}, d: {url: 'https://h/'}}",
            "",
            ("mcp: a starts B=c x 'y z'", "mcp: d connects to https://h/"),
        ),
        ("mcp: {a: {command: x}}", "mcp: {a: {command: z}}", ("mcp: a starts x",)),
        ("mcp: {a: {command: x}}", "mcp: {a: {command: x}, b: {command: z}}", ()),
        ("browser: true", "", ("browser: installs Chromium, which the agents control",)),
        ("browser: true", "browser: true", ()),
        ("", "browser: true", ()),
        (
            "ports: [3000, '8080:3001']",
            "ports: [3000]",
            ("ports: opens port 8080 of this machine for port 3001 of the sandbox, during run and shell",),
        ),
        ("", "ports: [3000]", ()),
        ("limits: {memory: 64g}", "", ("limits: memory 64g, before 8g; the default is 8g",)),
        ("limits: {memory: 4g, pids: 64, disk: 9g}", "", ()),
        ("", "limits: {disk: 9g}", ("limits: disk none, before 9g; the default is none",)),
        ("limits: {disk: 20g}", "limits: {disk: 9g}", ("limits: disk 20g, before 9g; the default is none",)),
        ("", "limits: {cpus: 1}", ("limits: cpus 4, before 1; the default is 4",)),
    ],
)
def test_lists_each_widening(now: str, before: str, lines: tuple[str, ...]) -> None:
    assert widens(*(parse_project_file(text, file="f") for text in (now, before))) == lines


@each(
    ("now", "before", "lines"),
    [
        ("db: {image: postgres:17}", "", [f"db {PULLED}"]),
        (f"db: {{image: '{DIGEST}'}}", "db: {image: postgres:17}", [f"db runs {DIGEST}, pulled from its registry"]),
        ("db: {build: {dockerfile: D}}", "db: {image: a}", ["db is built with D, which follows"]),
        (
            DB,
            "",
            [
                "db runs a, pulled from its registry; without a digest, it can change",
                "db is reached by the agent on port 1",
                "db reaches x",
                "db runs with its own environment",
                "x runs a, pulled from its registry; without a digest, it can change",
                "x is reached by the agent on port 2",
            ],
        ),
        (DB, DB, []),
        ("", DB, []),
        (
            "db: {image: a}, x: {image: a, expose: [2]}",
            DB,
            ["db runs with its own environment", "db may use memory 2g instead of 1g"],
        ),
        (
            DB.replace("[1]", "[1, 3, 4]").replace("1g", "3g").replace("A: b", "A: c"),
            DB,
            [
                "db is reached by the agent on port 3, 4",
                "db runs with its own environment",
                "db may use memory 3g instead of 1g",
            ],
        ),
        ("db: {image: a, volumes: ['d:/d']}", "db: {image: a}", ["db runs with its own volumes"]),
        ("db: {image: a, user: b, command: [c]}", "db: {image: a}", ["db runs with its own user, command"]),
    ],
)
def test_lists_each_widening_of_a_service(now: str, before: str, lines: list[str]) -> None:
    specs = (parse_project_file(f"beside: {{{text}}}", file="f") for text in (now, before))
    assert widens(*specs) == tuple(f"beside: {line}" for line in lines)
