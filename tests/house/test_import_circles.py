"""No circle of imports, also none that an import inside a function hides. Imports for type checkers do not run."""

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import agent_sandbox

ROOT = Path(agent_sandbox.__file__).parent
TREES = {
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): ast.parse(path.read_text())
    for path in sorted(ROOT.rglob("*.py"))
}
# Imports in functions that close a circle, by module. This list may only get shorter.
KNOWN = {
    "agent_sandbox.features.stack.execute": "agent_sandbox.features.session.on_terminal.session",
    "agent_sandbox.policy.http.graphql_operation": "agent_sandbox.policy.http.graphql_confinement",
    "agent_sandbox.engines.compose.checks.host": "agent_sandbox.engines.compose.checks.table",
    "agent_sandbox.features.stack.init.project_file": "agent_sandbox.features.stack.init.project_edit",
}


def imports(node: ast.AST) -> Iterator[str]:
    """Yield the modules of ours that a piece of code imports."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.Import():
            yield from (alias.name for alias in node.names)
        case ast.ImportFrom(module=str(module), level=0):
            names = [f"{module}.{alias.name}" for alias in node.names]
            yield from (name if name in TREES else module for name in names)
    for child in ast.iter_child_nodes(node):
        yield from imports(child)


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the modules of a circle, each imported by the next, [] without one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_no_circle_of_imports_hides_in_a_function() -> None:
    graph = {name: {one for one in imports(tree) if one in TREES} - {name} for name, tree in TREES.items()}
    gone = {one for one, other in KNOWN.items() if other not in graph.get(one, set())}
    assert gone == set(), "these are not circles any more: remove them from KNOWN"
    for one, other in KNOWN.items():
        graph[one].remove(other)
    assert circle(graph) == []


def test_a_circle_is_named() -> None:
    code = "if TYPE_CHECKING:\n    import agent_sandbox.cli\ndef f():\n    from agent_sandbox import policy"
    assert [*imports(ast.parse(code))] == ["agent_sandbox.policy"]
    assert sorted(circle({"a": {"b"}, "b": {"c"}, "c": {"b"}})[1:]) == ["b", "c"]
