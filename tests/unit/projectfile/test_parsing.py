import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.projectfile.parsing import parse_project_file
from agent_sandbox.projectfile.spec import LimitsSpec, ProjectSpec, ToolsSpec
from agent_sandbox.stack.recorded import Ide
from table_tests import each

AGENTS = ("first", "second")
BELOW = "write it without `..`, from the project's root"
PLAIN = "write its path from the project's root, with letters, digits, `.`, `_` and `-`"
OUTSIDE = "write `../NAME`, `~/NAME` or `/PATH`"
PORT = 'write 3000, or "8080:3000"'
TAKEN = "is set by the sandbox, or changes how its checks run"


@each(
    ("text", "expected"),
    [
        ("", ProjectSpec()),
        ("# nothing\n", ProjectSpec()),
        ("version: 1\nagents:\nlimits:\n", ProjectSpec(version=1, agents=None)),
        ("agents: [second, first]", ProjectSpec(agents=("second", "first"))),
        ("name: My App", ProjectSpec(name="My App")),
        (
            "limits: {memory: 4g, cpus: 1.5, pids: 99}",
            ProjectSpec(limits=LimitsSpec(memory="4g", cpus="1.5", pids="99")),
        ),
        ("packages:\ntools:\n", ProjectSpec()),
        ("packages: [golang, libc6=2.41-12, g++]", ProjectSpec(packages=("golang", "libc6=2.41-12", "g++"))),
        (
            "tools: {pip: [uv, ruff==0.14.1, 'a[b]>=1,<2'], npm: [pnpm@10, '@scope/name@^1.2']}",
            ProjectSpec(tools=ToolsSpec(pip=("uv", "ruff==0.14.1", "a[b]>=1,<2"), npm=("pnpm@10", "@scope/name@^1.2"))),
        ),
        ("base_image: registry.test/debian:13", ProjectSpec(base_image="registry.test/debian:13")),
        ("agent_versions:", ProjectSpec()),
        ("agent_versions: {first: 2.1.3}", ProjectSpec(agent_versions={"first": "2.1.3"})),
        ("setup: scripts/setup-sandbox.sh", ProjectSpec(setup="scripts/setup-sandbox.sh")),
        ("dockerfile: Dockerfile.box", ProjectSpec(dockerfile="Dockerfile.box")),
        ("ports:", ProjectSpec()),
    ],
)
def test_reads_the_keys(text: str, expected: ProjectSpec) -> None:
    assert parse_project_file(text, file="f", agents=AGENTS) == expected


def test_parses_ports_as_pairs() -> None:
    assert parse_project_file("ports: [3000, '8080:80']", file="f").ports == ((3000, 3000), (8080, 80))


def test_parses_ide_as_an_enum_member() -> None:
    assert parse_project_file("ide: jetbrains", file="f").ide is Ide.JETBRAINS


@each(
    ("text", "problems"),
    [
        ("agents: []", ["f:1:9: empty list; remove it, or add an entry"]),
        ("agents: first", ["f:1:9: list expected, not 'first'; write [first]"]),
        ("agents: [firts]", ["f:1:10: unknown agent 'firts'; did you mean `first`?"]),
        ("agents: [first, first]", ["f:1:9: first is listed twice; keep one of them"]),
        ("browser: firefox", ["f:1:10: not a browser: 'firefox'; write true, or playwright"]),
        ("ports: [x]", [f"f:1:9: not a port: 'x'; {PORT}"]),
        ("ports: ['0:80']", [f"f:1:9: not a port: '0:80'; {PORT}"]),
        ("ports: [true]", [f"f:1:9: not a port: 'True'; {PORT}"]),
        ("ports: [70000]", [f"f:1:9: not a port: '70000'; {PORT}"]),
        ("ports: [53/udp]", ["f:1:9: not a port: '53/udp'; remove it: only TCP ports answer on this machine"]),
        ("ports: [80]", ['f:1:9: port 80 of this machine needs root; write "8080:80"']),
        (
            "ports: [3000, '3000:80']",
            ['f:1:8: port 3000 of this machine is listed twice; write "HERE:PORT" with another one'],
        ),
        (
            f"ports: [{', '.join(map(str, range(3000, 3021)))}]",
            ["f:1:8: more than 20 ports; open the others with `agent-sandbox ports`"],
        ),
        ("limit: {}", ["f:1:1: unknown key 'limit'; did you mean `limits`?"]),
        ("limits: {memry: 1g}", ["f:1:10: unknown key 'memry'; did you mean `memory`?"]),
        ("memory: 1g", ["f:1:1: unknown key 'memory'; write `limits: {memory: ...}`"]),
        ("limits: {memory: 1g, memory: 2g}", ["f:1:22: duplicate key 'memory'; keep one of them"]),
        (
            "limits:\n  memory: 3\n  cpus: x\n  pids: 1\n",
            [
                "f:2:11: `3` is not a size: a number with k, m or g, as in `4g`",
                "f:3:9: `x` is not a number of processors, as in `2` or `1.5`",
                "f:4:9: `1` is too little: an agent needs at least 64",
            ],
        ),
        ("packages: golang", ["f:1:11: list expected, not 'golang'; write [golang]"]),
        ("packages: [-y]", ["f:1:12: not a Debian package: '-y'; write `NAME` or `NAME=VERSION`"]),
        ("packages: [git-]", ["f:1:12: not a Debian package: 'git-'; write `NAME` or `NAME=VERSION`"]),
        ("packages: ['a b']", ["f:1:12: not a Debian package: 'a b'; write `NAME` or `NAME=VERSION`"]),
        ("packages: [./a.deb]", ["f:1:12: not a Debian package: './a.deb'; write `NAME` or `NAME=VERSION`"]),
        ("packages: [tree, tree]", ["f:1:11: tree is listed twice; keep one of them"]),
        ("mtu: 575", ["f:1:6: not an MTU: '575'; write the bytes of the largest packets, from 576 to 9000"]),
        ("mtu: 9001", ["f:1:6: not an MTU: '9001'; write the bytes of the largest packets, from 576 to 9000"]),
        ("mtu: true", ["f:1:6: not an MTU: 'True'; write the bytes of the largest packets, from 576 to 9000"]),
        (
            f"packages: [{', '.join(f'a{number}' for number in range(201))}]",
            ["f:1:11: more than 200 packages; build an image of your own with `dockerfile`"],
        ),
        (
            "tools: {pip: [-r/etc/passwd, 'git+https://x/y', 'uv==1,'], npm: ['file:../x', 'a/b', --global]}",
            [
                "f:1:15: not a package of PyPI: '-r/etc/passwd'; write `NAME` or `NAME==VERSION`",
                "f:1:30: not a package of PyPI: 'git+https://x/y'; write `NAME` or `NAME==VERSION`",
                "f:1:49: not a package of PyPI: 'uv==1,'; write `NAME` or `NAME==VERSION`",
                "f:1:66: not a package of npm: 'file:../x'; write `NAME` or `NAME@VERSION`",
                "f:1:79: not a package of npm: 'a/b'; write `NAME` or `NAME@VERSION`",
                "f:1:86: not a package of npm: '--global'; write `NAME` or `NAME@VERSION`",
            ],
        ),
        ("npm: [pnpm]", ["f:1:1: unknown key 'npm'; write `tools: {npm: ...}`"]),
        ("dockerfile: ../D", ["f:1:13: not the name of a file: '../D'; name a file beside sandbox.yaml"]),
        *(
            (
                f"setup: '{path}'",
                [f"f:1:8: not a script in the project: '{path}'; {PLAIN}"],
            )
            for path in ("../x", "/x", "a//b", "scripts/", ".GIT/hooks/x", "${localEnv:TOKEN}", "--help", "a b", "a;b")
        ),
        (
            "base_image: --debian",
            ["f:1:13: not an image: '--debian'; write `NAME:TAG` or `REGISTRY/NAME:TAG`"],
        ),
        (
            "agent_versions: {first: latest}",
            [
                (
                    "f:1:17: not the version of an agent: 'latest'; "
                    "write `first: 1.2.3`, or run `agent-sandbox update first`"
                )
            ],
        ),
        ("agent_versions: {frist: 1.2.3}", ["f:1:17: unknown agent 'frist'; did you mean `first`?"]),
        ("setup: {run: x}", ["f:1:8: text expected, not a mapping"]),
        ("mask: [/etc]", [f"f:1:8: not a path in the project: '/etc'; {BELOW}"]),
        (
            "mask: [a/../../b]",
            [f"f:1:8: not a path in the project: 'a/../../b'; {BELOW}"],
        ),
        ("mask: [.GIT/x]", ["f:1:8: '.GIT/x' is protected; the sandbox needs it, and the agent cannot write it"]),
        (
            "mounts: [{path: src}]",
            [f"f:1:17: not a path outside the project: 'src'; {OUTSIDE}"],
        ),
        ("mounts: [../a]", ["f:1:10: entry expected, not '../a'; write `- {path: ../shared-lib}`"]),
        ("mounts: [{paht: ../a}]", ["f:1:10: `path` is missing", "f:1:11: unknown key 'paht'; did you mean `path`?"]),
        ("environment: {a-b: x}", ["f:1:14: not the name of a variable: 'a-b'; use letters, digits and `_`"]),
        (
            "environment: {ld_preload: x}",
            [f"f:1:14: `ld_preload` {TAKEN}; use another name"],
        ),
        ("environment: {A: [x]}", ["f:1:14: the value of `A` is not one line of text; write it in quotes"]),
        ("limits: {cpus: true}", ["f:1:16: `` is not a number of processors, as in `2` or `1.5`"]),
        ("ide: vim", ["f:1:6: unknown editor 'vim'; known: jetbrains, none, vscode"]),
        ("ide:", ["f:1:5: no value; remove the key, or give it a value"]),
        ("name: ''", ["f:1:7: not a valid name; use up to 100 printable characters"]),
        ("name: 3", ['f:1:7: text expected, not `3`; if you mean the text, quote it: "3"']),
        ("version: 2", ["f:1:10: invalid value `2`; write 1"]),
        ("- a", ["f:1:1: keys and values expected, not a list"]),
        ("name: *b", ["f:1:7: an alias (`*b`); write the value out"]),
        ("name: a\x00", ["f:1:8: a character that is not allowed in a text file: '\\x00'; remove it"]),
        ("name: a\u202e", ["f:1:8: a character that is not allowed in a text file: '\\u202e'; remove it"]),
    ],
)
def test_reports_each_problem_at_its_place(text: str, problems: list[str]) -> None:
    with pytest.raises(UserError) as error:
        parse_project_file(text, file="f", agents=AGENTS)
    assert str(error.value).splitlines() == problems


def test_accepts_any_agent_if_no_known_agents_are_given() -> None:
    assert parse_project_file("agents: [elsewhere]", file="f").agents == ("elsewhere",)
