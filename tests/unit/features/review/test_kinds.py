from itertools import groupby

import pytest
import yaml

from agent_sandbox.features.review.kinds import TABLE, kind_of, load_kinds
from table_tests import each


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
    assert all(one.kind.why and (one.exact or one.names.pattern or one.paths.pattern) for one in load_kinds())


@each(
    ("tool", "names"),
    [
        (
            "Ruby",
            ".irbrc .pryrc .rdbgrc .ruby-version Guardfile Capfile Thorfile Dangerfile config.ru gems.rb Berksfile",
        ),
        (
            "Python",
            ".pdbrc sitecustomize.py ipython_config.py dodo.py tasks.py noxfile.py .coveragerc gunicorn.conf.py",
        ),
        ("Haskell and OCaml", ".ghci .ocamlinit stack.yaml cabal.project app.cabal Setup.hs hie.yaml dune"),
        ("Elixir and Erlang", ".iex.exs .formatter.exs config/dev.exs rebar.config"),
        ("debuggers", ".gdbinit .lldbinit .perldb app-gdb.py .psysh.php .octaverc .gnuplot"),
        ("TeX", ".latexmkrc latexmkrc arararc.yaml build.lua"),
        ("Java", "gradlew gradle.properties mvnw build.xml build.sc .sbtopts .jvmopts libs.versions.toml .sdkmanrc"),
        ("Bazel and its kin", ".bazelrc ci.bazelrc .bazelversion .buckconfig pants.toml .plzconfig"),
        ("versions", "rust-toolchain.toml devbox.json devenv.yaml pixi.toml environment.yml .nvmrc .python-version"),
        (
            "C",
            "wscript Tupfile premake5.lua xmake.lua conanfile.py CMakeUserPresets.json configure Makefile.in a.mk",
        ),
        ("JavaScript", "nodemon.json ecosystem.config.js .sequelizerc .pnp.cjs .yarn/releases/yarn-4.cjs lerna.json"),
        (
            "deploy",
            "ansible.cfg cdk.json serverless.yml wrangler.toml fly.toml helmfile.yaml terragrunt.hcl playbook.yml",
        ),
        (".NET", "build.cake run.csx app.targets app.props app.sln global.json .config/dotnet-tools.json"),
        ("Apple", "App.xcodeproj/project.pbxproj Podfile Mintfile deep/a.xcscheme Project.swift"),
        (
            "others",
            "mix.exs deps.edn project.clj Makefile.PL platformio.ini hardhat.config.ts .tmuxinator.yml Snakefile",
        ),
    ],
)
def test_knows_what_tools_read_where_they_start(tool: str, names: str) -> None:
    assert [name for name in names.split() if kind_of(name) is None] == [], tool


def test_each_row_of_the_table_names_one_tool_and_its_documentation() -> None:
    rows = yaml.safe_load(TABLE.read_text())
    kinds = [kind for kind, _ in groupby(row["kind"] for row in rows)]
    assert len(kinds) == len(set(kinds))
    tools = [(row["kind"], row["tool"]) for row in rows]
    assert len(tools) == len(set(tools))
    assert [
        row for row in rows if not row["source"].startswith("https://") or not row.keys() & {"names", "paths"}
    ] == []
    every = [name.casefold() for row in rows for key in ("names", "paths") for name in row.get(key, ())]
    assert {name for name in every if every.count(name) > 1} == set()


def test_an_ordinary_file_of_a_large_project_is_of_no_kind() -> None:
    names = "README.md main.py app.ts index.html style.css data.json notes.txt lib.rs Main.java c.yaml t.c a.lock"
    assert [name for name in names.split() if kind_of(f"src/{name}")] == []
