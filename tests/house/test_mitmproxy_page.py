"""docs/mitmproxy.md lists each use of mitmproxy's internals, for the one version that is installed everywhere."""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from agent_sandbox import proxy

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "mitmproxy.md"
PROXY = Path(proxy.__file__).parent
SOURCES = {path.relative_to(PROXY).as_posix(): ast.parse(path.read_text("utf-8")) for path in PROXY.rglob("*.py")}

# The modules of mitmproxy's API reference that the proxy uses. The page lists them, too.
PUBLIC = {
    "mitmproxy.connection",
    "mitmproxy.flow",
    "mitmproxy.http",
    "mitmproxy.proxy.context",
    "mitmproxy.proxy.mode_specs",
    "mitmproxy.tls",
}
MODULE_NAME = re.compile(r"mitmproxy(\.\w+)+")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def section(heading: str) -> str:
    return PAGE.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def lines(heading: str) -> list[tuple[str, str]]:
    """Return the items of a section, each with the file that the heading above it names."""
    found, file = [], ""
    for line in section(heading).splitlines():
        if line.startswith("### "):
            (file,) = code(line)
        elif line.startswith("- "):
            found.append((file, line))
    return found


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def imported(tree: ast.AST) -> dict[str, tuple[str, str]]:
    """Map each name that a module imports from mitmproxy to the module it comes from and the name there."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "mitmproxy":
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                names[alias.asname or alias.name] = (whole if _is_module(whole) else str(node.module), alias.name)
        elif isinstance(node, ast.Import):
            # A plain import would hide which names are used.
            assert [alias.name for alias in node.names if alias.name.partition(".")[0] == "mitmproxy"] == []
    return names


def _is_module(name: str) -> bool:
    parent = find_spec(name.rpartition(".")[0])
    return parent is not None and parent.submodule_search_locations is not None and find_spec(name) is not None


def internal_imports() -> dict[str, tuple[set[str], set[str]]]:
    """Map each internal module of mitmproxy to the names that we import and our files that do."""
    found: dict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for file, tree in SOURCES.items():
        for module, name in imported(tree).values():
            if module not in PUBLIC:
                found[module][0].add(name)
                found[module][1].add(file)
    return dict(found)


def overrides() -> Iterator[tuple[str, str, str]]:
    """Yield file, `Class.name` and mitmproxy's class for each name that our class and its mitmproxy base define."""
    for file, tree in SOURCES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                # Raises for a class that is not at the top level: define subclasses of mitmproxy's classes only there.
                bases = getattr(_module(file), node.name).__mro__[1:]
                for name in _defined(node):
                    if base := next((base for base in bases if _is_mitmproxys(base) and _defines(base, name)), None):
                        yield file, f"{node.name}.{name}", base.__name__


def _module(file: str) -> object:
    return import_module(".".join((proxy.__name__, *Path(file).with_suffix("").parts)).removesuffix(".__init__"))


def _defined(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        if isinstance(statement, FUNCTIONS):
            yield statement.name
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


def _is_mitmproxys(base: type) -> bool:
    return base.__module__.partition(".")[0] == "mitmproxy"


def _defines(base: type, name: str) -> bool:
    return name in vars(base) or name in vars(base).get("__annotations__", {})


def patches() -> Iterator[tuple[str, str]]:
    """Yield file and target for each assignment into mitmproxy, and for each of its modules that a string names."""
    for file, tree in SOURCES.items():
        yield from ((file, target) for target in assigned(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and MODULE_NAME.fullmatch(str(node.value)):
                yield file, str(node.value)


def assigned(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a module sets or deletes in mitmproxy's modules and classes, also through `vars`."""
    names = imported(tree)
    for node in ast.walk(tree):
        target: ast.AST = node
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "delattr", "vars"):
            attribute = ast.literal_eval(node.args[1]) if node.args[1:] else "__dict__"
            target = ast.Attribute(node.args[0], attribute, ast.Store())
        if isinstance(target, ast.Attribute | ast.Subscript) and not isinstance(target.ctx, ast.Load):
            root, _, rest = ast.unparse(target).partition(".")
            if root in names and rest:
                module, name = names[root]
                yield f"{module if module.endswith(f'.{name}') else f'{module}.{name}'}.{rest}"


def test_page_lists_the_public_modules_that_are_used() -> None:
    used = {module for tree in SOURCES.values() for module, _ in imported(tree).values()}
    assert set(code(section("Imports").partition("\n- ")[0])) == PUBLIC
    assert used >= PUBLIC


def test_page_lists_each_internal_import() -> None:
    items = re.findall(r"^- (.+): (.+)\n  - in (.+)\n  - \S.+\.$", section("Imports"), re.MULTILINE)
    listed = {code(module)[0]: (set(code(names)), set(code(files))) for module, names, files in items}
    assert len(items) == len(lines("Imports"))
    assert listed == internal_imports()


def test_page_lists_each_override() -> None:
    matches = [(file, re.fullmatch(r"- `(\S+)` \(`(\w+)`\): \S.+\.", line)) for file, line in lines("Overrides")]
    assert sorted((file, *match.groups()) for file, match in matches if match) == sorted(overrides())
    assert None not in {match for _, match in matches}


def test_page_lists_each_patch() -> None:
    matches = [(file, re.fullmatch(r"- `(\S+)`, by \S.+: \S.+\.", line)) for file, line in lines("Patches")]
    assert sorted((file, match[1]) for file, match in matches if match) == sorted(patches())
    assert None not in {match for _, match in matches}


def test_finds_patches_in_every_form() -> None:
    tree = ast.parse(
        "from mitmproxy.proxy import layer\nfrom mitmproxy.http import Headers as Fields\n"
        "layer.Layer = 1\n"
        "def install():\n"
        "    Fields.get = 2\n"
        "    setattr(layer, 'x', 3)\n"
        "    vars(layer)['y'] = 4\n"
        "    layer.z: int = 5\n"
        "    del layer.w\n"
        "    own = layer.Layer.read\n"
        "    own.layer = 6\n"
    )
    module = "mitmproxy.proxy.layer"
    assert sorted(assigned(tree)) == [
        "mitmproxy.http.Headers.get",
        f"{module}.Layer",
        f"{module}.__dict__",
        f"{module}.w",
        f"{module}.x",
        f"{module}.z",
    ]


def test_mitmproxy_is_pinned_to_the_locked_version_that_the_page_describes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (pinned,) = (one for one in project["optional-dependencies"]["proxy"] if one.startswith("mitmproxy"))
    locks = [ROOT / "requirements" / "dev.txt", ROOT / "images" / "proxy" / "requirements.txt"]
    locked = [re.findall(r"^mitmproxy==\S+", lock.read_text("utf-8"), re.MULTILINE) for lock in locks]
    assert locked == [[pinned], [pinned]]
    described = re.findall(r"\bmitmproxy (\d+\.\d+\.\d+)", PAGE.read_text("utf-8"))
    assert {f"mitmproxy=={version}" for version in described} == {pinned}
