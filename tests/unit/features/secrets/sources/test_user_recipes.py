import os
from pathlib import Path

import pytest

from agent_sandbox.features.secrets.sources.all_recipes import shared_recipes
from agent_sandbox.features.secrets.sources.recipes import Recipe
from agent_sandbox.problems import UserError
from table_tests import each

TEXT = """\
version: 1
secrets:
  - name: openai.key
    hosts: [API.openai.com]
    from: op read op://work/openai
    ttl: 8h
    projects: [~/app, {app}]
  - {{name: other, hosts: [a.test], from: env:OTHER, projects: [/elsewhere]}}
"""
SHARED = Recipe(name="openai.key", hosts=("api.openai.com",), source="op read op://work/openai", ttl=28_800.0)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A user with a file of recipes for the project `app`."""
    for name in ("app", "below/app", "config/agent-sandbox"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "config" / "agent-sandbox").chmod(0o700)
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(tmp_path / "state")}
    file(environ).write_text(TEXT.format(app=tmp_path / "app"))
    file(environ).chmod(0o600)
    return environ


def file(environ: dict[str, str]) -> Path:
    return Path(environ["XDG_CONFIG_HOME"]) / "agent-sandbox" / "secrets.yaml"


def problems(environ: dict[str, str], root: Path) -> list[str]:
    with pytest.raises(UserError) as raised:
        shared_recipes(root, environ)
    return [str(one).removeprefix(f"{file(environ)}:").lstrip() for one in raised.value.problems]


def test_a_recipe_applies_only_to_the_projects_that_it_names(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "app")
    assert shared_recipes(tmp_path / "app", environ) == (SHARED,)
    assert shared_recipes(tmp_path / "link", environ) == (SHARED,)
    for other in (tmp_path / "app" / "below", tmp_path / "below" / "app", tmp_path / "ap"):
        assert shared_recipes(other, environ) == ()


@each(
    ("text", "expected"),
    [
        ("", ["1:1: `version` is missing"]),
        ("version: 2", ["1:10: invalid value `2`; write 1"]),
        ("version: 1\nsecret: []", ["2:1: unknown key 'secret'; did you mean `secrets`?"]),
        (
            (
                "version: 1\nsecrets:\n"
                "- {name: a b, hosts: ['*.a.test', 'b c'], from: x, value: v, projects: [app], ttl: 1y}"
            ),
            [
                "3:10: not a secret name: 'a b'; use letters, digits, `.`, `_` and `-`, such as `github.token`",
                (
                    "3:23: `*.a.test` is a wildcard, but a secret is bound to single hosts; "
                    "name each host; otherwise any host below it would receive the secret"
                ),
                "3:35: 'b c' has characters that are not allowed in a host; write one host, such as `example.com`",
                "3:52: unknown key 'value'; known: from, hosts, name, projects, ttl",
                "3:73: not an absolute path: 'app'; write a project's directory: ~/app",
                (
                    "3:84: not a time to live: '1y'; "
                    "write a number with a unit, such as 30m, 8h or 7d; at least 30s, at most 365d"
                ),
            ],
        ),
        (
            "version: 1\nsecrets:\n- {name: a, hosts: [], from: '', projects: []}",
            [
                "3:20: List should have at least 1 item after validation, not 0",
                "3:30: String should have at least 1 character",
                "3:44: List should have at least 1 item after validation, not 0",
            ],
        ),
        ("version: 1\nsecrets: [{name: a}]", [f"2:11: `{key}` is missing" for key in ("from", "hosts", "projects")]),
        (
            "version: 1\nsecrets:\n" + "- {name: a, hosts: [a.test], from: x, projects: [/app]}\n" * 2,
            ["4:10: a is here twice; keep one, with all its projects"],
        ),
        ("version: 1\nsecrets: [&x {}, *x]", None),
        ("version: [", None),
    ],
)
def test_every_problem_of_the_file_is_reported(
    environ: dict[str, str], tmp_path: Path, text: str, expected: list[str] | None
) -> None:
    file(environ).write_text(text)
    found = problems(environ, tmp_path / "app")
    assert found
    assert expected in (None, found)


UNSAFE = "others may write here, and so could name commands that run as you; make it yours: chmod go-w {}"


@pytest.mark.parametrize("at", ["folder", "file"])
def test_rejects_shared_recipes_where_other_users_can_write(environ: dict[str, str], tmp_path: Path, at: str) -> None:
    place = file(environ).parent if at == "folder" else file(environ)
    place.chmod(0o770)
    with pytest.raises(UserError) as raised:
        shared_recipes(tmp_path / "app", environ)
    assert str(raised.value.problems[0]) == f"{place}: {UNSAFE.format(place)}"


def test_rejects_symbolic_links_pipes_and_files_that_are_too_long(environ: dict[str, str], tmp_path: Path) -> None:
    path = file(environ)
    path.write_text("#" * 300_000)
    assert problems(environ, tmp_path / "app") == ["longer than 256 KiB"]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    refused = "cannot be read: Too many levels of symbolic links; it must be a file, not a link"
    assert problems(environ, tmp_path / "app") == [refused]
    path.unlink()
    os.mkfifo(path, 0o600)
    assert problems(environ, tmp_path / "app") == ["not a regular file"]


@pytest.mark.parametrize("project", ["config", "config/agent-sandbox", "other"])
def test_rejects_shared_recipes_in_a_project(environ: dict[str, str], tmp_path: Path, project: str) -> None:
    if project == "other":  # another project, with a stack, that contains the user's configuration
        (tmp_path / "config" / ".devcontainer").mkdir()
    (found,) = problems(environ, tmp_path / project)
    what = "this file is in a project, where an agent could name commands that run as you"
    assert found == f"{what}; set XDG_CONFIG_HOME to a directory outside all projects"
