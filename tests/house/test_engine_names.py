"""No module outside the drivers names an engine: not in a name, a command, a text or an import."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "agent_sandbox"
DRIVERS = ("backends/compose/", "runtime/compose/")
# Not `decompose`, nor PHP's `composer`.
NAMED = re.compile(r"docker|podman|moby|buildx|(?<![a-z])compose(?!r)", re.IGNORECASE)

# Each with the reason why it may name one. Shorten it; do not add to it.
ALLOWED = {
    "runtime/drivers.py": "the table of drivers",
    "backends/renderers.py": "the table of renderers",
    "stack/engine.py": "the words, as data for all others",
    "policy/match/host_service.py": "the name of the Docker host; the policy imports nothing of the stack",
    "render/devcontainer.py": "a key of devcontainer.json, which editors define",
    "runtime/project/trust_snapshot.py": "a key of the trust records on disk",
}


def named_in(text: str) -> Iterator[str]:
    """Yield each name and text of a module that names an engine; comments and docstrings are prose."""
    tree = ast.parse(text)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) not in prose:
            yield from (word for word in _words(node) if NAMED.search(word))


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
    modules = {str(path.relative_to(PACKAGE)): path for path in PACKAGE.rglob("*.py") if "_data" not in path.parts}
    found = {name: [*named_in(path.read_text())] for name, path in modules.items() if not name.startswith(DRIVERS)}
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
    ],
)
def test_a_name_is_found_however_it_is_written(text: str) -> None:
    assert [*named_in(text)] != []


@pytest.mark.parametrize(
    "text", ["x = 'composer.lock'", "# docker", "def f():\n    'Ask the Docker engine.'", "precompose = 1"]
)
def test_prose_and_other_words_are_no_names(text: str) -> None:
    assert [*named_in(text)] == []


def test_only_the_allowed_modules_name_an_engine() -> None:
    found = outside()
    assert {name: words for name, words in found.items() if name not in ALLOWED} == {}
    assert [name for name in ALLOWED if name not in found] == [], "no longer needed"
