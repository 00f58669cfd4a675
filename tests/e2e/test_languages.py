"""Each language that `init --with` installs builds and runs a program in the sandbox.

`make languages` tests all of them in one image. Every change tests only Go, in test_project_file.py.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_sandbox.detect import MANIFESTS
from agent_sandbox.projectfile.languages import LANGUAGES
from engine import run
from prepared import build_project
from real_stacks import Project, Projects
from turns import NIGHTLY

# A project's files, and a command that prints `hello` and then the version of the package manager.
EXAMPLES: dict[str, tuple[dict[str, str], str]] = {
    "c": (
        {"hello.c": '#include <stdio.h>\nint main(void) { puts("hello"); }\n'},
        "cc -o hello hello.c && ./hello && make --version",
    ),
    "go": (
        {
            "go.mod": "module hello\n",
            "main.go": 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("hello") }\n',
        },
        "go run . && go version",
    ),
    "java": (
        {"Hello.java": 'class Hello { public static void main(String[] a) { System.out.println("hello"); } }\n'},
        "java Hello.java && mvn --version",
    ),
    "node": ({"hello.js": "console.log('hello')\n"}, "node hello.js && npm --version"),
    "php": ({"hello.php": '<?php echo "hello\\n";\n'}, "php hello.php && composer --version"),
    "python": (
        {"hello.py": "print('hello')\n"},
        "python3 -I -m venv .venv && .venv/bin/python hello.py && .venv/bin/pip --version",
    ),
    "ruby": ({"hello.rb": "puts 'hello'\n"}, "ruby hello.rb && bundle --version"),
    "rust": (
        {
            "Cargo.toml": '[package]\nname = "hello"\nversion = "0.1.0"\nedition = "2021"\n',
            "src/main.rs": 'fn main() { println!("hello"); }\n',
        },
        "cargo run --quiet && cargo --version",
    ),
}


# What no file shows.
UNSEEN = tuple(name for name in LANGUAGES if name not in MANIFESTS)
TRIED = tuple(EXAMPLES) if NIGHTLY or os.environ.get("EVERY_LANGUAGE") else ()


def prepare() -> None:
    if TRIED:
        build_project("claude", "--with", ",".join((*MANIFESTS, *UNSEEN)))


def test_each_language_has_an_example() -> None:
    assert set(EXAMPLES) == set(LANGUAGES)


@pytest.fixture(scope="module")
def all_languages(projects: Projects) -> Iterator[Project]:
    """Make a project that gets each language by a file that shows it, and the others by the option."""

    def show(path: Path) -> None:
        for names in MANIFESTS.values():
            (path / names[0]).touch()

    project = projects.make("languages", "claude", fill=show)
    for names in MANIFESTS.values():  # each example has its own
        (project.path / names[0]).unlink()
    project.sandbox("init", "--with", ",".join(UNSEEN))
    project.sandbox("up")
    yield project
    made = project.containers()["agent"]["Config"]["Image"]
    project.sandbox("destroy", "--yes")
    run("docker", "image", "rm", "--force", made, check=False)


@pytest.mark.parametrize("language", TRIED)
def test_a_program_in_each_language_builds_and_runs(all_languages: Project, language: str) -> None:
    files, command = EXAMPLES[language]
    writes = "".join(f'mkdir -p "$(dirname {name})"; cat >{name} <<\\EOF\n{text}EOF\n' for name, text in files.items())
    script = f"mkdir -p {language}; cd {language}; {writes}{command}"
    said = all_languages.exec("sh", "-ec", script).stdout.splitlines()
    assert said[0] == "hello"
    assert any(character.isdigit() for character in said[1])
