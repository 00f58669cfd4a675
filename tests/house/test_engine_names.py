"""No module outside the drivers names an engine: not in a name, a command, a text, a docstring or a comment."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "agent_sandbox"
DRIVERS = ("engines/compose/",)
# Not `decompose`, nor PHP's `composer`.
NAMED = re.compile(r"docker|podman|moby|buildx|(?<![a-z])compose(?!r)", re.IGNORECASE)

# Each with the reason why it is allowed to name an engine. Shorten this list; do not add to it.
ALLOWED = {
    "engines/drivers.py": "the table of drivers",
    "engines/renderers.py": "the table of renderers",
    "stack/engine.py": "the words, as data for all others",
    "policy/text.py": "the name of the Docker host; the policy imports nothing of the stack",
    "projectfile/spec.py": "a key of the project file, named after the format of the file",
    "project/render/editor_files.py": "a key of devcontainer.json, which editors define",
    "features/watch/watching/rule_dialog.py": "a method that a screen of Textual has",
    "project/trust_snapshot.py": "a key of the trust records on disk",
}
# The help of a command is its docstring, and names the command and the file that users see.
HELP = ("features/stack/commands/init.py", "features/stack/commands/up.py")


def named_in(text: str) -> Iterator[str]:
    """Yield each name, text, docstring and comment of a module that names an engine."""
    for node in ast.walk(ast.parse(text)):
        yield from (word for word in _words(node) if NAMED.search(word))
    comments = (
        token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT
    )
    yield from (token.string for token in comments if NAMED.search(token.string))


def _words(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
            yield name
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names):
            yield from (module or "", *(alias.name for alias in names))


def outside() -> dict[str, list[str]]:
    """Return what each module outside the drivers names."""
    paths = (path for path in PACKAGE.rglob("*.py") if "_data" not in path.parts)
    modules = {str(path.relative_to(PACKAGE)): path.read_text() for path in paths}
    suspects = {name for name, text in modules.items() if NAMED.search(text) and not name.startswith(DRIVERS)}
    found = {name: [*named_in(modules[name])] for name in suspects}
    return {name: words for name, words in found.items() if words}


@pytest.mark.parametrize(
    "text",
    [
        "import docker",
        "from x.compose import y",
        "DOCKER = 1",
        "f(docker=1)",
        "x = ('podman', 'ps')",
        "def compose(): ...",
        "x = 1  # docker",
        "def f():\n    'Ask the Docker engine.'",
    ],
)
def test_finds_engine_names_in_every_part_of_a_module(text: str) -> None:
    assert [*named_in(text)] != []


@pytest.mark.parametrize("text", ["x = 'composer.lock'", "# composer", "precompose = 1"])
def test_ignores_words_that_are_similar_to_engine_names(text: str) -> None:
    assert [*named_in(text)] == []


def test_only_the_allowed_modules_name_an_engine() -> None:
    found = outside()
    helps = {name: [word for word in words if "\n" in word] for name, words in found.items() if name in HELP}
    named = {name: [word for word in words if word not in helps.get(name, ())] for name, words in found.items()}
    assert {name: words for name, words in named.items() if words and name not in ALLOWED} == {}
    assert [name for name in ALLOWED if name not in found] == [], "no longer needed"
    assert [name for name in HELP if not helps.get(name)] == [], "no longer needed"


# Those that make commands, and those that start them.
STARTING = ("engines/compose/", "engines/plan.py", "host/", "features/ports/forward.py")


def test_only_what_starts_a_command_reads_its_words() -> None:
    reading = set()
    for path in PACKAGE.rglob("*.py"):
        name = str(path.relative_to(PACKAGE))
        for node in ast.walk(ast.parse(path.read_text())) if not name.startswith(STARTING) else ():
            match node:
                case ast.Attribute(value=ast.Name(id="sys"), attr="argv"):
                    pass
                case ast.Attribute(attr="argv"):
                    reading.add(name)
    assert reading == set()
