from typing import Any

import pytest
import yaml

from agent_sandbox.agents.manifest import (
    MODELS,
    AgentManifest,
    Archive,
    Download,
    HostReadSpec,
    Install,
    NpmPackage,
    PypiPackage,
    Settings,
    Unattended,
    faults_of_lock,
    parse_manifest,
)
from agent_sandbox.problems import UserError
from table_tests import each

VALID: dict[str, Any] = {
    "name": "example",
    "title": "Example",
    "summary": "An agent",
    "install": {"npm": {"package": "@example/agent", "version": "1.2.3"}},
    "command": ["example"],
    "version_command": ["example", "--version"],
    "unattended": {"arguments": ["--yes"]},
    "state": [".example"],
    "services": ["example"],
}
LOCK = f"example==1.2.3 \\\n    --hash=sha256:{'0' * 64}\n"
NPM = VALID["install"]
PYPI = {"pypi": {"package": "example", "version": "1.2.3"}}
FILES = {"url": "https://example.com/example.tar.gz", "sha256": "0" * 64}
ARM = {**FILES, "program": "arm/example"}
ARCHIVE = {"archive": {"version": "1.2.3", "program": "bin/example", "amd64": FILES, "arm64": ARM}}


def parse(said: object, lock: str = "") -> AgentManifest:
    return parse_manifest(yaml.safe_dump(said, sort_keys=False), file="f", lock=lock)


def faults(said: object, lock: str = "") -> list[str]:
    """Return the problems of a manifest, without the name of its file."""
    with pytest.raises(UserError) as raised:
        parse(said, lock)
    return [str(problem).removeprefix("f:") for problem in raised.value.problems]


def archive(**changed: object) -> dict[str, Any]:
    return {"install": {"archive": ARCHIVE["archive"] | changed}}


def test_parses_every_key_of_a_manifest() -> None:
    said = VALID | {
        "install": {**NPM, "apt": ["libfoo1"]},
        "unattended": {"arguments": ["--yes"], "environment": {"YOLO": "1"}, "files": {".example/a.json": "{}\n"}},
        "resume": ["--continue"],
        "instructions": ".example/AGENTS.md",
        "state": [".example", ".config/example"],
        "env": {"EXAMPLE_HOME": "/home/dev/.example"},
        "providers": ["anthropic"],
        "editor": {"vscode": ["Example.agent"]},
        "settings": {"files": [".example/skills"], "keys": {".example/s.json": ["model"]}},
        "host_reads": [{"path": ".example/*.json", "why": "hooks"}],
    }
    assert parse(said) == AgentManifest(
        name="example",
        title="Example",
        summary="An agent",
        install=Install(npm=NpmPackage(package="@example/agent", version="1.2.3"), apt=("libfoo1",)),
        command=("example",),
        version_command=("example", "--version"),
        unattended=Unattended(arguments=("--yes",), environment={"YOLO": "1"}, files={".example/a.json": "{}\n"}),
        resume=("--continue",),
        instructions=".example/AGENTS.md",
        state=(".example", ".config/example"),
        env={"EXAMPLE_HOME": "/home/dev/.example"},
        services=("example",),
        providers=("anthropic",),
        editor={"vscode": ("Example.agent",)},
        settings=Settings(files=(".example/skills",), keys={".example/s.json": ("model",)}),
        host_reads=(HostReadSpec(path=".example/*.json", why="hooks"),),
    )


def test_an_agent_comes_from_npm_pypi_or_an_archive() -> None:
    files, arm = Download(**FILES), Download(**ARM)
    found = Archive(version="1.2.3", program="bin/example", amd64=files, arm64=arm)
    assert parse(VALID | {"install": ARCHIVE}).install == Install(archive=found)
    assert found.downloads == {"amd64": files, "arm64": arm}
    pypi = parse(VALID | {"install": PYPI}, LOCK).install.pypi
    assert isinstance(pypi, PypiPackage)
    assert (pypi.package, pypi.version, pypi.lock) == ("example", "1.2.3", LOCK)
    kinds = {"npm": NPM, "pypi": PYPI, "archive": ARCHIVE}
    assert [parse(VALID | {"install": one}, LOCK).install.kind for one in kinds.values()] == [*kinds]


@each(
    ("install", "lock", "recipe"),
    [
        (NPM, "", "INSTALL=npm\nPROGRAM=example\nNPM_PACKAGE=@example/agent\nNPM_VERSION=1.2.3\n"),
        (PYPI, LOCK, "INSTALL=pypi\nPROGRAM=example\n"),
        (ARCHIVE, "", "INSTALL=archive\nPROGRAM=example\nARCHIVE_PROGRAM=bin/example\n"),
    ],
)
def test_the_recipe_names_what_to_install(install: dict[str, Any], lock: str, recipe: str) -> None:
    said = VALID | {"install": install, "version_command": ["example", "$(say it)"]}
    assert parse(said, lock).recipe() == (recipe + """VERSION_COMMAND='example '"'"'$(say it)'"'"''\n""")


@each(
    ("said", "lock", "files"),
    [
        ({}, "", {"apt": b""}),
        ({"install": {**NPM, "apt": ["aa", "bb"]}}, "", {"apt": b"aa\nbb\n"}),
        ({"unattended": {"files": {".x/y": "z"}}}, "", {"apt": b"", "home/.x/y": b"z"}),
        ({"install": PYPI}, LOCK, {"apt": b"", "requirements.txt": LOCK.encode()}),
        (
            {"install": ARCHIVE},
            "",
            {
                "apt": b"",
                "archive": "".join(
                    f"{name} {'0' * 64} https://example.com/example.tar.gz{program}\n"
                    for name, program in (("amd64", ""), ("arm64", " arm/example"))
                ).encode(),
            },
        ),
    ],
)
def test_build_files_contain_what_only_this_agents_image_needs(
    said: dict[str, Any], lock: str, files: dict[str, bytes]
) -> None:
    manifest = parse(VALID | said, lock)
    expected = {"recipe": manifest.recipe().encode(), **files}
    assert manifest.build_files() == {f"agents/example/{path}": text for path, text in expected.items()}


@each(
    ("asks", "resumes", "words"),
    [
        (False, False, ("YOLO=1", "example", "--yes")),
        (True, False, ("example",)),
        (False, True, ("YOLO=1", "example", "--continue", "--yes")),
        (True, True, ("example", "--continue")),
    ],
)
def test_an_agent_starts_unattended_unless_asked_to_ask(asks: bool, resumes: bool, words: tuple[str, ...]) -> None:  # noqa: FBT001 - rows
    said = VALID | {"unattended": {"arguments": ["--yes"], "environment": {"YOLO": "1"}}, "resume": ["--continue"]}
    assert parse(said).started(asks=asks, resumes=resumes) == words


BELOW = "write it without `..`, from the home directory"
LINES = "use up to 500 characters, without line breaks"
SLUGS = "use up to 32 of `a-z`, `0-9` and `-`, and begin with a letter"
IN_PROJECT = "write it without `..`, from the project's root"
EMPTY = "empty list; remove it, or add an entry"
ONE_KIND = "`install` must have exactly one of npm, pypi, archive; keep one of them"


@each(
    ("wrong", "told"),
    [
        ({"nmae": "example"}, "20:1: unknown key 'nmae'; did you mean `name`?"),
        ({"name": "Example"}, f"1:7: not a name: 'Example'; {SLUGS}"),
        ({"name": "-x"}, f"1:7: not a name: '-x'; {SLUGS}"),
        ({"title": "two\nlines"}, f"2:8: not one line of text: 'two\\nlines'; {LINES}"),
        ({"command": []}, f"8:10: {EMPTY}"),
        ({"command": ["a\nb"]}, f"9:3: not one line of text: 'a\\nb'; {LINES}"),
        ({"command": ["A=1"]}, "9:3: `command.0` is 'A=1'; it must be the name of a program"),
        ({"command": ["/bin/sh"]}, "9:3: `command.0` is '/bin/sh'; it must be the name of a program"),
        ({"state": [".a\n"]}, f"17:3: not a path below the home directory: '.a\\n'; {BELOW}"),
        ({"state": ["../elsewhere"]}, f"17:3: not a path below the home directory: '../elsewhere'; {BELOW}"),
        ({"state": ["/etc"]}, f"17:3: not a path below the home directory: '/etc'; {BELOW}"),
        ({"state": [".a/../../b"]}, f"17:3: not a path below the home directory: '.a/../../b'; {BELOW}"),
        ({"state": []}, f"16:8: {EMPTY}"),
        ({"env": {"lower": "x"}}, "21:3: not the name of a variable: 'lower'; use `A-Z`, `0-9` and `_`"),
        ({"env": {"A": "x\ny"}}, f"21:6: not one line of text: 'x\\ny'; {LINES}"),
        (
            {"unattended": {"environment": {"PATH x": "z"}}},
            "15:5: not the name of a variable: 'PATH x'; use `A-Z`, `0-9` and `_`",
        ),
        ({"unattended": {"files": {"../x": "z"}}}, f"15:5: not a path below the home directory: '../x'; {BELOW}"),
        (
            {"unattended": {"files": {".x": "a\x00b"}}},
            "15:9: not text: 'a\\x00b'; use up to 10000 characters, without control characters",
        ),
        ({"instructions": "/etc/passwd"}, f"20:15: not a path below the home directory: '/etc/passwd'; {BELOW}"),
        (
            {"install": {"npm": {"package": "x; rm -rf /", "version": "1.0.0"}}},
            "6:14: not a package of npm: 'x; rm -rf /'; write `NAME` or `@SCOPE/NAME`",
        ),
        (
            {"install": {"npm": {"package": "x", "version": "latest"}}},
            "7:14: not a pinned version: 'latest'; write `1.2.3`",
        ),
        ({"install": {**NPM, "apt": ["-o"]}}, "9:5: not a Debian package: '-o'; write its name"),
        ({"install": {**NPM, "apt": ["foo bar"]}}, "9:5: not a Debian package: 'foo bar'; write its name"),
        (
            archive(amd64=FILES | {"url": "http://example.com/x"}),
            "9:12: not the URL of a file: 'http://example.com/x'; write `https://HOST/PATH`",
        ),
        (
            archive(amd64=FILES | {"url": "https://example.com/x y"}),
            "9:12: not the URL of a file: 'https://example.com/x y'; write `https://HOST/PATH`",
        ),
        (archive(arm64=FILES | {"sha256": "0"}), "13:15: not a SHA-256: '0'; write 64 of `0-9` and `a-f`"),
        (archive(program="--help"), f"7:14: not a path below the home directory: '--help'; {BELOW}"),
        (archive(arm64=FILES | {"program": "../x"}), f"14:16: not a path below the home directory: '../x'; {BELOW}"),
        ({"install": {}}, f"4:10: {ONE_KIND}"),
        (
            {"editor": {"vscode": ["no-publisher"]}},
            "22:5: not an extension of an editor: 'no-publisher'; write `PUBLISHER.NAME`",
        ),
        ({"editor": {"emacs": ["a.b"]}}, "21:3: not an editor: 'emacs'; write `vscode` or `jetbrains`"),
        ({"settings": {"files": ["../x"]}}, f"22:5: not a path below the home directory: '../x'; {BELOW}"),
        (
            {"settings": {"keys": {".example/s.yaml": ["a"]}}},
            f"22:5: not a .json or .toml file below the home directory: '.example/s.yaml'; {BELOW}",
        ),
        (
            {"settings": {"keys": {".example/s.json": ["a b"]}}},
            "23:7: not a key of the agent's settings: 'a b'; use letters, digits, `_` and `-`",
        ),
        ({"host_reads": [{"path": "../x", "why": "z"}]}, f"21:9: not a path in a project: '../x'; {IN_PROJECT}"),
        ({"host_reads": [{"path": "/x", "why": "z"}]}, f"21:9: not a path in a project: '/x'; {IN_PROJECT}"),
        ({"host_reads": [{"path": "a/./b", "why": "z"}]}, f"21:9: not a path in a project: 'a/./b'; {IN_PROJECT}"),
        ({"host_reads": [{"path": "a/../b", "why": "z"}]}, f"21:9: not a path in a project: 'a/../b'; {IN_PROJECT}"),
        ({"install": NPM | PYPI}, f"5:3: {ONE_KIND}"),
        ({"install": {"apt": ["aa"]}}, f"5:3: {ONE_KIND}"),
        ({"install": PYPI}, "6:5: requirements.txt, beside it, does not pin example==1.2.3"),
        ({"services": ["a"], "providers": []}, f"20:12: {EMPTY}"),
        ({"state": [".local/share/x"]}, "17:3: `state` names .local/share/x, but the sandbox itself mounts ~/.local"),
        ({"state": [".config"]}, "17:3: `state` names .config, but the sandbox itself mounts ~/.config/agent-sandbox"),
        ({"state": [".a", ".a/b"]}, "18:3: `state` names .a/b, which is in .a"),
        ({"state": [".a", ".b", ".a"]}, "17:3: `state` names .a twice"),
        ({"state": [".x", "a/b", "a.b"]}, "17:1: `state` names two paths that differ only in `/` and `.`"),
        ({"env": {"HTTPS_PROXY": "x"}}, "21:3: the variable HTTPS_PROXY is reserved for the sandbox"),
        (
            {"env": {"AGENT_SANDBOX_PROTECTED": "x"}},
            "21:3: the variable AGENT_SANDBOX_PROTECTED is reserved for the sandbox",
        ),
        ({"unattended": {"environment": {"PATH": "/x"}}}, "15:5: the variable PATH is reserved for the sandbox"),
        (
            {"unattended": {"environment": {"SSL_CERT_FILE": "x"}}},
            "15:5: the variable SSL_CERT_FILE is reserved for the sandbox",
        ),
        ({"settings": {"files": [".ssh"]}}, "22:5: `settings` names .ssh, which is not in a directory of `state`"),
        (
            {"settings": {"files": [".example"]}},
            "22:5: `settings` names .example, which is not in a directory of `state`",
        ),
        (
            {"settings": {"keys": {".b/s.json": ["a"]}}},
            "22:5: `settings` names .b/s.json, which is not in a directory of `state`",
        ),
        ({"stat": [".a"]}, "20:1: unknown key 'stat'; did you mean `state`?"),
        ({"unattended": ["--yes"]}, "14:1: keys and values expected, not a list"),
    ],
)
def test_reports_invalid_dangerous_and_contradictory_values_at_their_place(wrong: dict[str, Any], told: str) -> None:
    assert faults(VALID | wrong) == [told]


def test_an_agent_without_services_needs_providers() -> None:
    alone = {key: value for key, value in VALID.items() if key != "services"}
    what = "`services` and `providers` are both missing: the agent could not connect to anything"
    assert faults(alone) == [f"1:1: {what}"]
    assert parse(alone | {"providers": ["anthropic"]}).services == ()


@pytest.mark.parametrize(
    ("document", "shown"), [([], "a list"), ("text", "'text'"), (1, "`1`")], ids=["list", "text", "number"]
)
def test_rejects_a_manifest_that_is_not_a_mapping(document: object, shown: str) -> None:
    assert faults(document) == [f"1:1: keys and values expected, not {shown}"]


def test_reports_all_problems_at_once() -> None:
    wrong = {key: value for key, value in VALID.items() if key != "title"}
    wrong |= {"nmae": "x", "command": "example", "env": ["A=1"], "install": {**NPM, "apt": ["-o"]}}
    assert faults(wrong) == [
        "1:1: `title` is missing",
        "8:5: not a Debian package: '-o'; write its name",
        "9:10: list expected, not 'example'; write [example]",
        "20:1: unknown key 'nmae'; did you mean `name`?",
        "22:1: keys and values expected, not a list",
    ]


def test_an_empty_manifest_lacks_every_required_key() -> None:
    required = [name for name, field in AgentManifest.model_fields.items() if field.is_required()]
    assert faults(None) == sorted(f"1:1: `{name}` is missing" for name in required)


MORE = {"zzz": 1}
EVERY_PART: dict[str, dict[str, Any]] = {
    "": MORE,
    "install": {"install": NPM | MORE},
    "npm": {"install": {"npm": NPM["npm"] | MORE}},
    "pypi": {"install": {"pypi": PYPI["pypi"] | MORE}},
    "archive": archive(**MORE),
    "amd64": archive(amd64=FILES | MORE),
    "arm64": archive(arm64=FILES | MORE),
    "unattended": {"unattended": MORE},
    "settings": {"settings": MORE},
    "host_reads": {"host_reads": [{"path": "a", "why": "b"} | MORE]},
    "mcp": {"mcp": MORE},
    "login": {"login": MORE},
    "tokens": {"login": {"tokens": {"access": MORE}}},
    "expires": {"login": {"expires": MORE}},
    "refresh": {"login": {"refresh": MORE}},
    "tokens/refresh": {"login": {"tokens": {"refresh": MORE}}},
}


def test_an_unknown_key_is_reported_with_the_keys_of_its_part() -> None:
    assert [*EVERY_PART] == [*MODELS]
    for part, said in EVERY_PART.items():
        (told,) = (one for one in faults(VALID | said, LOCK) if "zzz" in one)
        assert told.endswith(f": unknown key 'zzz'; known: {', '.join(sorted(MODELS[part].model_fields))}"), part


LOCK_HASH = f"    --hash=sha256:{'0' * 64}"
LOCK_PIN = f"example==1.2.3 \\\n{LOCK_HASH}\n"


@each(
    "text",
    [
        LOCK_PIN,
        f"# made by make lock\n{LOCK_PIN}",
        f"{LOCK_PIN}other[extra]==2.0.post1 ; sys_platform == 'linux' \\\n{LOCK_HASH} \\\n{LOCK_HASH}\n",
    ],
)
def test_accepts_a_lock_with_pins_and_hashes(text: str) -> None:
    assert [*faults_of_lock(text, "example", "1.2.3")] == []


@each(
    "line",
    [
        "other",
        "other==1.0",
        "other>=1.0 \\",
        "--index-url https://example.com/simple",
        "--extra-index-url=https://example.com/simple",
        "-r other.txt",
        "-e .",
        "other @ https://example.com/other.whl \\",
        "./other.whl",
        "    --hash=md5:0",
        "--trusted-host example.com",
    ],
)
def test_rejects_a_lock_with_other_lines_than_pins_and_hashes(line: str) -> None:
    fault = "requirements.txt:3 is neither a pinned version nor a sha256 hash"
    assert [*faults_of_lock(f"{LOCK_PIN}{line}\n", "example", "1.2.3")] == [fault]


@each("text", ["", LOCK_PIN.replace("1.2.3", "1.2.4"), LOCK_PIN.replace("example", "example2")])
def test_rejects_a_lock_that_does_not_pin_the_package_itself(text: str) -> None:
    fault = "requirements.txt, beside it, does not pin example==1.2.3"
    assert [*faults_of_lock(text, "example", "1.2.3")] == [fault]
