from typing import Any

import pytest

from agent_sandbox.agents.manifest import (
    AgentManifest,
    Archive,
    Download,
    HostRead,
    NpmPackage,
    PypiPackage,
    Settings,
    Unattended,
    faults_of_lock,
    parse_manifest,
)
from agent_sandbox.problems import Problem, UserError
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
PYPI = {"pypi": {"package": "example", "version": "1.2.3"}}
FILES = {"url": "https://example.com/example.tar.gz", "sha256": "0" * 64}
ARM = {**FILES, "program": "arm/example"}
ARCHIVE = {"archive": {"version": "1.2.3", "program": "bin/example", "amd64": FILES, "arm64": ARM}}


def faults(wrong: dict[str, Any], lock: str = "") -> list[str]:
    with pytest.raises(UserError) as raised:
        parse_manifest(VALID | wrong, file="f", lock=lock)
    return [problem.what for problem in raised.value.problems]


def test_parses_every_key_of_a_manifest() -> None:
    said = VALID | {
        "install": {**VALID["install"], "apt": ["libfoo1"]},
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
    assert parse_manifest(said, file="f") == AgentManifest(
        name="example",
        title="Example",
        summary="An agent",
        install=NpmPackage(package="@example/agent", version="1.2.3"),
        apt=("libfoo1",),
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
        host_reads=(HostRead(path=".example/*.json", why="hooks"),),
    )


@each(
    ("install", "lock", "expected"),
    [
        (VALID["install"], "", NpmPackage(package="@example/agent", version="1.2.3")),
        (PYPI, LOCK, PypiPackage(package="example", version="1.2.3", lock=LOCK)),
        (
            ARCHIVE,
            "",
            Archive(
                version="1.2.3",
                program="bin/example",
                downloads={"amd64": Download(**FILES), "arm64": Download(**ARM)},
            ),
        ),
    ],
)
def test_an_agent_comes_from_npm_pypi_or_an_archive(install: dict[str, Any], lock: str, expected: object) -> None:
    assert parse_manifest(VALID | {"install": install}, file="f", lock=lock).install == expected


@each(
    ("install", "lock", "recipe"),
    [
        (VALID["install"], "", "INSTALL=npm\nPROGRAM=example\nNPM_PACKAGE=@example/agent\nNPM_VERSION=1.2.3\n"),
        (PYPI, LOCK, "INSTALL=pypi\nPROGRAM=example\n"),
        (ARCHIVE, "", "INSTALL=archive\nPROGRAM=example\nARCHIVE_PROGRAM=bin/example\n"),
    ],
)
def test_the_recipe_names_what_to_install(install: dict[str, Any], lock: str, recipe: str) -> None:
    said = VALID | {"install": install, "version_command": ["example", "$(say it)"]}
    assert parse_manifest(said, file="f", lock=lock).recipe() == (
        recipe + """VERSION_COMMAND='example '"'"'$(say it)'"'"''\n"""
    )


@each(
    ("said", "lock", "files"),
    [
        ({}, "", {"apt": b""}),
        ({"install": {**VALID["install"], "apt": ["aa", "bb"]}}, "", {"apt": b"aa\nbb\n"}),
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
    manifest = parse_manifest(VALID | said, file="f", lock=lock)
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
    assert parse_manifest(said, file="f").started(asks=asks, resumes=resumes) == words


@each(
    "wrong",
    [
        {"nmae": "example"},
        {"name": "Example"},
        {"name": "-x"},
        {"title": "two\nlines"},
        {"command": []},
        {"command": ["a\nb"]},
        {"command": ["A=1"]},
        {"command": ["/bin/sh"]},
        {"state": [".a\n"]},
        {"state": ["../elsewhere"]},
        {"state": ["/etc"]},
        {"state": [".a/../../b"]},
        {"state": []},
        {"env": {"lower": "x"}},
        {"env": {"A": "x\ny"}},
        {"unattended": {"environment": {"PATH x": "y"}}},
        {"unattended": {"files": {"../x": "y"}}},
        {"unattended": {"files": {".x": "a\0b"}}},
        {"instructions": "/etc/passwd"},
        {"install": {"npm": {"package": "x; rm -rf /", "version": "1.0.0"}}},
        {"install": {"npm": {"package": "x", "version": "latest"}}},
        {"install": {**VALID["install"], "apt": ["-o"]}},
        {"install": {**VALID["install"], "apt": ["foo bar"]}},
        {"install": {"archive": {**ARCHIVE["archive"], "amd64": {**FILES, "url": "http://example.com/x"}}}},
        {"install": {"archive": {**ARCHIVE["archive"], "amd64": {**FILES, "url": "https://example.com/x y"}}}},
        {"install": {"archive": {**ARCHIVE["archive"], "arm64": {**FILES, "sha256": "0"}}}},
        {"install": {"archive": {**ARCHIVE["archive"], "program": "--help"}}},
        {"install": {"archive": {**ARCHIVE["archive"], "arm64": {**FILES, "program": "../x"}}}},
        {"install": {}},
        {"editor": {"vscode": ["no-publisher"]}},
        {"editor": {"emacs": ["a.b"]}},
        {"settings": {"files": ["../x"]}},
        {"settings": {"keys": {".example/s.yaml": ["a"]}}},
        {"settings": {"keys": {".example/s.json": ["a b"]}}},
        {"host_reads": [{"path": "../x", "why": "y"}]},
        {"host_reads": [{"path": "/x", "why": "y"}]},
        {"host_reads": [{"path": "a/./b", "why": "y"}]},
        {"host_reads": [{"path": "a/../b", "why": "y"}]},
    ],
)
def test_rejects_invalid_and_dangerous_values(wrong: dict[str, Any]) -> None:
    assert len(faults(wrong)) == 1


@each(
    ("wrong", "fault"),
    [
        ({"install": {**VALID["install"], **PYPI}}, "`install` must have exactly one of npm, pypi, archive"),
        ({"install": {"apt": ["aa"]}}, "`install` must have exactly one of npm, pypi, archive"),
        ({"install": PYPI}, "requirements.txt, beside it, does not pin example==1.2.3"),
        ({"services": ["a"], "providers": []}, "`providers` must be a list of at least one"),
        ({"state": [".local/share/x"]}, "`state` names .local/share/x, but the sandbox itself mounts ~/.local"),
        ({"state": [".config"]}, "`state` names .config, but the sandbox itself mounts ~/.config/agent-sandbox"),
        ({"state": [".a", ".a/b"]}, "`state` names .a/b, which is in .a"),
        ({"state": [".a", ".b", ".a"]}, "`state` names .a twice"),
        ({"state": [".x", "a/b", "a.b"]}, "`state` names two paths that differ only in `/` and `.`"),
        ({"command": ["A=1"]}, "`command.0` is 'A=1'; it must be the name of a program"),
        ({"env": {"HTTPS_PROXY": "x"}}, "the variable HTTPS_PROXY is reserved for the sandbox"),
        ({"env": {"AGENT_SANDBOX_PROTECTED": "x"}}, "the variable AGENT_SANDBOX_PROTECTED is reserved for the sandbox"),
        ({"unattended": {"environment": {"PATH": "/x"}}}, "the variable PATH is reserved for the sandbox"),
        (
            {"unattended": {"environment": {"SSL_CERT_FILE": "x"}}},
            "the variable SSL_CERT_FILE is reserved for the sandbox",
        ),
        ({"settings": {"files": [".ssh"]}}, "`settings` names .ssh, which is not in a directory of `state`"),
        ({"settings": {"files": [".example"]}}, "`settings` names .example, which is not in a directory of `state`"),
        (
            {"settings": {"keys": {".b/s.json": ["a"]}}},
            "`settings` names .b/s.json, which is not in a directory of `state`",
        ),
        ({"stat": [".a"]}, "unknown key `stat` in the manifest; did you mean `state`?"),
        ({"unattended": ["--yes"]}, "`unattended` must be a mapping"),
    ],
)
def test_reports_a_problem_with_its_key(wrong: dict[str, Any], fault: str) -> None:
    assert faults(wrong) == [fault]


def test_an_agent_without_services_needs_providers() -> None:
    alone = {key: value for key, value in VALID.items() if key != "services"}
    with pytest.raises(UserError) as raised:
        parse_manifest(alone, file="f")
    what = "`services` and `providers` are both missing: the agent could not connect to anything"
    assert raised.value.problems == (Problem(where="f", what=what),)
    assert parse_manifest(alone | {"providers": ["anthropic"]}, file="f").services == ()


@pytest.mark.parametrize("document", [None, [], "text", 1])
def test_rejects_a_manifest_that_is_not_a_mapping(document: object) -> None:
    with pytest.raises(UserError) as raised:
        parse_manifest(document, file="f")
    assert raised.value.problems == (Problem(where="f", what="`the manifest` must be a mapping"),)


def test_reports_all_problems_at_once() -> None:
    wrong = {key: value for key, value in VALID.items() if key != "title"}
    wrong |= {"nmae": "x", "command": "example", "env": ["A=1"]}
    with pytest.raises(UserError) as raised:
        parse_manifest(wrong, file="f")
    assert [problem.what for problem in raised.value.problems] == [
        "unknown key `nmae` in the manifest; did you mean `name`?",
        "`title` is missing in the manifest",
        "`command` must be a list of at least one",
        "`env` must be a mapping",
    ]


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


def test_an_agent_without_settings_copies_no_keys() -> None:
    assert (Settings().files, Settings().keys) == ((), {})
