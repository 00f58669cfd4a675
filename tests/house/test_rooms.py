"""Rooms of features are entered through the modules that they open."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import agent_sandbox.features
from agent_sandbox.features import OPEN

HERE = Path(agent_sandbox.features.__file__).parent
NAME = agent_sandbox.features.__name__


def test_a_room_imports_of_another_only_what_that_one_opens() -> None:
    used: dict[str, set[str]] = defaultdict(set)
    for file in HERE.rglob("*.py"):
        for room, module in _imports(file):
            if room != file.relative_to(HERE).parts[0]:
                used[room].add(module)
    assert {room: tuple(sorted(modules)) for room, modules in used.items()} == OPEN


def _imports(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the room and the module of each import from a room, also those inside functions."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{NAME}."):
            place = HERE.joinpath(*(node.module or "").removeprefix(f"{NAME}.").split("."))
            for name in node.names:
                module = place / name.name if place.joinpath(f"{name.name}.py").exists() else place
                room, *rest = module.relative_to(HERE).parts
                yield room, ".".join(rest)
