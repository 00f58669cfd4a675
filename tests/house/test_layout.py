"""The house rules that a machine can check: names, sizes, and what src/ can contain."""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "agent_sandbox"

MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "_data" not in path.parts)

ADR = ROOT / "docs" / "adr"
SECTIONS = ["Context", "Decision", "Consequences"]
DECISION = re.compile(
    r"# ADR (?P<number>\d+): (?P<title>.+)\n\n"
    r"Status: (?P<status>accepted|superseded by ADR \d+) · Date: (?P<date>\d{4}-\d\d-\d\d)\n\n## Context\n"
)


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Return every node of a module's syntax tree."""
    return [*ast.walk(parsed(path))]


def functions(path: Path) -> list[tuple[str, int]]:
    """Return (name, lines) of every function in a module."""
    found = (node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [(node.name, (node.end_lineno or node.lineno) - node.lineno + 1) for node in found]


def test_no_module_is_longer_than_500_lines() -> None:
    assert [path.name for path in MODULES if path.read_text().count("\n") > 500] == []


def test_nine_functions_in_ten_have_at_most_30_lines_and_none_over_60() -> None:
    sizes = [(size, f"{path.name}:{name}") for path in MODULES for name, size in functions(path)]
    assert [name for size, name in sizes if size > 60] == []
    assert sum(size <= 30 for size, _ in sizes) >= 0.9 * len(sizes)


def test_source_names_no_agent() -> None:
    agents = {path.parent.name for path in (ROOT / "templates").glob("*/agent.yaml")}
    named = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value!r}"
        for path in MODULES
        for node in nodes(path)
        if isinstance(node, ast.Constant) and node.value in agents
    ]
    assert agents >= {"claude", "copilot"}
    assert named == []


@pytest.mark.parametrize("word", ["TODO", "FIXME", "pytest.skip", "pytest.xfail", "mark.skip", "mark.xfail"])
def test_no_file_contains_todos_or_skipped_tests(word: str) -> None:
    grep = subprocess.run(
        ["git", "grep", "--line-number", "--fixed-strings", word, "--", ":!tests/house", ":!pyproject.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert grep.stdout == ""


@pytest.fixture(scope="module")
def decisions() -> list[re.Match[str]]:
    """Return the head of each decision page, in the order of the file names."""
    heads = [(path.name, DECISION.match(path.read_text("utf-8"))) for path in sorted(ADR.glob("0*.md"))]
    assert [name for name, head in heads if not head] == []
    return [head for _, head in heads if head]


def test_decisions_have_increasing_numbers(decisions: list[re.Match[str]]) -> None:
    numbers = [int(head["number"]) for head in decisions]
    assert numbers == sorted(set(numbers))


def test_decision_pages_are_named_by_number_and_title(decisions: list[re.Match[str]]) -> None:
    assert sorted(path.name for path in ADR.iterdir()) == [*map(_file_name, decisions), "README.md"]


def test_decision_pages_have_the_same_three_sections() -> None:
    sections = {path.name: re.findall(r"^#+ (.*)", path.read_text("utf-8"), re.MULTILINE) for path in ADR.glob("0*.md")}
    assert {name: found[1:] for name, found in sections.items() if found[1:] != SECTIONS} == {}


def test_decision_index_lists_each_page_with_its_title(decisions: list[re.Match[str]]) -> None:
    rows = [line for line in (ADR / "README.md").read_text("utf-8").splitlines() if line.startswith("- [")]
    assert rows == [f"- [{head['number']}]({_file_name(head)}): {head['title']}" for head in decisions]


def _file_name(head: re.Match[str]) -> str:
    words = re.sub(r"[^a-z0-9 -]", "", head["title"].lower()).split()
    return f"{int(head['number']):04d}-{'-'.join(words)}.md"


def test_every_package_has_a_docstring() -> None:
    folders = {path.parent for path in MODULES}
    assert [str(one.relative_to(ROOT)) for one in sorted(folders) if not _docstring(one / "__init__.py")] == []


def _docstring(path: Path) -> str | None:
    return ast.get_docstring(parsed(path)) if path.exists() else None


def test_glossary_is_sorted_and_replaces_none_of_its_own_terms() -> None:
    lines = [line for line in (ROOT / "docs" / "glossary.md").read_text("utf-8").splitlines() if line.startswith("- ")]
    rows = [re.fullmatch(r"- \*\*(.+?)\*\*: \S.*?\.(?: \*([^*.`]+)\*)?", line) for line in lines]
    assert [line for line, row in zip(lines, rows, strict=True) if row is None] == []
    terms = [row[1] for row in rows if row]
    assert len(terms) > 80
    assert terms == sorted(set(terms), key=str.lower)
    assert [word for row in rows if row and row[2] for word in row[2].split(", ") if word in terms] == []


def test_relative_links_in_documents_resolve() -> None:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    links = [
        (page, ROOT / page, *target.partition("#")[::2])
        for page in listed.splitlines()
        for target in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", (ROOT / page).read_text("utf-8"))
    ]
    targets = [(page, (path.parent / file if file else path), anchor) for page, path, file, anchor in links]
    assert [f"{page}: {path}" for page, path, _ in targets if not path.exists()] == []
    assert [f"{page}: {path}#{name}" for page, path, name in targets if name and name not in _anchors(path)] == []


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


# Programs that run in a container with Python's standard library only.
STDLIB_ONLY = {"features/copying/tree.py", "features/ports/listeners.py", "features/ports/relay.py"}
NO_COUNTERPART = {"init", "repr", "compare"}


def data_classes() -> list[tuple[str, ast.ClassDef]]:
    """Return the data classes in src/, with their files."""
    return [
        (str(path.relative_to(PACKAGE)), node)
        for path in MODULES
        if str(path.relative_to(PACKAGE)) not in STDLIB_ONLY
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(one) for one in node.decorator_list)
    ]


def needs_dataclass(node: ast.ClassDef) -> bool:
    """Return whether the class uses something that structs do not have."""
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call) and ast.unparse(part.func) == "field"]
    options = {keyword.arg for call in calls for keyword in call.keywords}
    return bool(node.bases or options & NO_COUNTERPART or "@cached_property" in ast.unparse(node))


def test_classes_are_structs_unless_they_need_a_data_class() -> None:
    """At each start, Python takes a millisecond to create a data class (ADR 72)."""
    found = data_classes()
    bases = {ast.unparse(base) for _, node in found for base in node.bases}
    assert [
        f"{path}: {node.name}" for path, node in found if not needs_dataclass(node) and node.name not in bases
    ] == []


def test_structs_do_not_use_field_of_dataclasses() -> None:
    """The default would be the `Field` object itself, and mypy does not report that."""
    structs = [
        (path, node)
        for path in MODULES
        if re.search(r"^from dataclasses import .*\bfield\b", path.read_text(), re.MULTILINE)
        for node in nodes(path)
        if isinstance(node, ast.ClassDef) and "Struct" in map(ast.unparse, node.bases)
    ]
    assert len(structs) > 5
    assert [
        f"{path.relative_to(PACKAGE)}: {node.name}"
        for path, node in structs
        for part in ast.walk(node)
        if isinstance(part, ast.Call) and ast.unparse(part.func) == "field"
    ] == []
