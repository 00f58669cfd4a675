import pytest

from agent_sandbox.runtime.review.kinds import kind_of, load_kinds


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("Makefile", "build"),
        ("src/deep/makefile", "build"),
        ("rules.mk", "build"),
        (".github/workflows/ci.yml", "CI"),
        (".GitHub/Workflows/deep/ci.yml", "CI"),
        ("docs/.github/workflows/ci.yml", None),
        ("Jenkinsfile.release", "CI"),
        ("packages/a/package.json", "packages"),
        ("package-lock.json", "requirements"),
        ("requirements-dev.txt", "requirements"),
        ("compose.override.yaml", "container"),
        ("app/Dockerfile.dev", "container"),
        ("tests/conftest.py", "tests"),
        ("scripts/release", "scripts"),
        ("deep/run.sh", "scripts"),
        ("AGENTS.md", "agents"),
        (".gitattributes", "git"),
        (".gitmodules", "git"),
        ("deep/.lfsconfig", "git"),
        (".vscode/tasks.json", "host"),
        (".VSCode/deep/settings.json", "host"),
        (".mcp.json", "host"),
        (".vscode/a\nb.json", "host"),
        ("a\nb/Makefile", "build"),
        (".claude/settings.json", "host"),
        (".cursor/hooks.json", "host"),
        ("lefthook.yml", "host"),
        (".cursor/deep/notes.json", None),
        ("sub/.vscode/tasks.json", None),
        (".vscodex", None),
        (".env", None),
        ("README.md", None),
        ("src/main.py", None),
        ("notMakefile", None),
        (f"{'a/' * 1_000}Makefile", "build"),
        ("deep/.bundle/config", "packages"),
        ("Dockerfile.d/deep/below", None),
    ],
)
def test_the_path_of_a_file_decides_its_kind(path: str, kind: str | None) -> None:
    found = kind_of(path)
    assert (found.name if found else None) == kind


def test_every_kind_has_a_reason_and_a_pattern() -> None:
    assert all(kind.why and (names.pattern or paths.pattern) for kind, names, paths in load_kinds())
