import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.project.dotenv import MAX_FILES, editor_name, require_editor_name, stack_files, variable
from init_project import Init
from table_tests import each

OURS = Path(".devcontainer/docker-compose.yml")


@each(
    ("text", "expected"),
    [
        ("A=1", "1"),
        ("A=1\nA=2\n", "2"),
        ("export A=1", "1"),
        ("  A = 1  ", "1"),
        ("A='1 # 2'", "1 # 2"),
        ('A="1" # why', "1"),
        ("A=1 # why", "1"),
        ("A=", ""),
        ("#A=1", None),
        ("AB=1", None),
        ("", None),
    ],
)
def test_a_variable_is_read_as_compose_reads_it(text: str, expected: str | None) -> None:
    assert variable(text, "A") == expected


@each("text", ["\n" * 8000, f"A=1{' ' * 8000}1", f"A{' ' * 8000}", "export " * 1000, 'A="' * 2000])
def test_reads_a_variable_quickly_from_long_texts(text: str) -> None:
    started = time.process_time()
    variable(text, "A")
    assert time.process_time() - started < 0.1


def test_the_stack_consists_of_our_file_without_a_dotenv(tmp_path: Path) -> None:
    assert stack_files(tmp_path, OURS) == (tmp_path / OURS,)


@pytest.mark.parametrize("value", [".devcontainer/docker-compose.yml", "", "other.yml", "other.yml:more.yml"])
def test_a_dotenv_that_does_not_add_files_to_ours_changes_nothing(tmp_path: Path, value: str) -> None:
    (tmp_path / ".env").write_text(f"COMPOSE_FILE={value}\n")
    assert stack_files(tmp_path, OURS) == (tmp_path / OURS,)


def test_uses_additional_compose_files_in_their_order(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"COMPOSE_FILE={OURS}:extra.yml\n")
    assert stack_files(tmp_path, OURS) == (tmp_path / OURS, tmp_path / "extra.yml")


@pytest.mark.parametrize("dotenv", [f"COMPOSE_FILE={OURS}:extra.yml\n".encode(), b"COMPOSE_FILE=\xff\n"])
def test_a_stack_created_without_a_dotenv_ignores_a_later_dotenv(tmp_path: Path, init: Init, dotenv: bytes) -> None:
    root = tmp_path / "app"
    init(root, dotenv=False)
    (root / ".env").write_bytes(dotenv)
    assert stack_files(root, OURS) == (root / OURS,)


def test_splits_compose_file_at_compose_path_separator(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"COMPOSE_PATH_SEPARATOR=,\nCOMPOSE_FILE={OURS},a:b.yml\n")
    assert stack_files(tmp_path, OURS) == (tmp_path / OURS, tmp_path / "a:b.yml")


def test_rejects_a_dotenv_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"COMPOSE_FILE=\xff\n")
    with pytest.raises(UserError) as raised:
        stack_files(tmp_path, OURS)
    assert str(raised.value) == f"{tmp_path}/.env: not UTF-8 text at byte 13; save it as UTF-8"


def test_rejects_too_many_compose_files(tmp_path: Path) -> None:
    names = [str(OURS), *("x.yml" for _ in range(MAX_FILES))]
    (tmp_path / ".env").write_text(f"COMPOSE_FILE={':'.join(names[:-1])}\n")
    assert len(stack_files(tmp_path, OURS)) == MAX_FILES
    (tmp_path / ".env").write_text(f"COMPOSE_FILE={':'.join(names)}\n")
    with pytest.raises(UserError) as raised:
        stack_files(tmp_path, OURS)
    assert str(raised.value) == (
        f"{tmp_path}/.env: `COMPOSE_FILE` names 33 files; at most 32 are allowed; merge some of them"
    )


@each(
    ("text", "environ", "name"),
    [
        ("", {}, None),
        ("COMPOSE_PROJECT_NAME=mine\n", {}, "mine"),
        ("A=1\r\nCOMPOSE_PROJECT_NAME=My App \r\nB=2", {}, "myapp"),
        ("COMPOSE_PROJECT_NAME='mine'\nCOMPOSE_PROJECT_NAME=second\n", {}, "mine"),
        ("COMPOSE_PROJECT_NAME=!\n", {}, None),
        (" COMPOSE_PROJECT_NAME=mine\nexport COMPOSE_PROJECT_NAME=mine\nCOMPOSE_PROJECT_NAME=", {}, None),
        ("COMPOSE_PROJECT_NAME=mine\n", {"COMPOSE_PROJECT_NAME": "Shell"}, "shell"),
        ("COMPOSE_PROJECT_NAME=mine\n", {"COMPOSE_PROJECT_NAME": ""}, "mine"),
        ("caf\udce9\nCOMPOSE_PROJECT_NAME=mine\n", {}, "mine"),
        (f"COMPOSE_PROJECT_NAME={'a' * 100_000}\n", {}, "a" * 200),
    ],
)
def test_reads_the_project_name_as_an_editor_does(
    tmp_path: Path, text: str, environ: dict[str, str], name: str | None
) -> None:
    (tmp_path / ".env").write_bytes(text.encode(errors="surrogateescape"))
    assert editor_name(tmp_path, environ) == name


def test_reads_the_project_name_from_devcontainer_env_if_the_root_env_is_missing(tmp_path: Path) -> None:
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / ".devcontainer" / ".env").write_text("COMPOSE_PROJECT_NAME=first\n export COMPOSE_PROJECT_NAME='other'")
    assert editor_name(tmp_path, {}) == "other"
    (tmp_path / ".env").write_text("COMPOSE_PROJECT_NAME=mine\n")
    assert editor_name(tmp_path, {}) == "mine"


def test_editor_name_follows_links_and_ignores_what_is_not_a_regular_file(tmp_path: Path) -> None:
    project = tmp_path / "app"
    project.mkdir()
    assert editor_name(project, {}) is None
    (project / ".env").symlink_to("../shared")
    assert editor_name(project, {}) is None
    (tmp_path / "shared").write_text("COMPOSE_PROJECT_NAME=mine\n")
    assert editor_name(project, {}) == "mine"
    (tmp_path / "shared").unlink()
    os.mkfifo(tmp_path / "shared")
    assert editor_name(project, {}) is None
    (tmp_path / "shared").unlink()
    (tmp_path / "shared").symlink_to("app/.env")
    assert editor_name(project, {}) is None


def test_rejects_an_env_that_is_too_large_to_search(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("#" * (1 << 20) + "\nCOMPOSE_PROJECT_NAME=mine\n")
    with pytest.raises(UserError) as raised:
        editor_name(tmp_path, {})
    what = "larger than 1 MiB, so it was not searched for COMPOSE_PROJECT_NAME"
    assert str(raised.value) == f"{tmp_path}/.env: {what}"


def test_rejects_a_project_name_under_which_an_editor_would_start_another_stack(tmp_path: Path) -> None:
    require_editor_name(tmp_path, "app-1", {})
    (tmp_path / ".env").write_text("COMPOSE_PROJECT_NAME=app-1\n")
    require_editor_name(tmp_path, "app-1", {})
    with pytest.raises(UserError) as raised:
        require_editor_name(tmp_path, "app-2", {})
    assert str(raised.value) == (
        f"{tmp_path}: COMPOSE_PROJECT_NAME is app-1: an editor starts the stack under this name, "
        "where agent-sandbox does not find it; "
        "name your own stack with `name:` in its compose file, and remove COMPOSE_PROJECT_NAME from .env or your shell"
    )


def test_the_stack_includes_files_named_in_devcontainer_json_with_or_without_a_dotenv(
    tmp_path: Path, init: Init
) -> None:
    root = tmp_path / "app"
    init(root, dotenv=False)
    config = root / ".devcontainer" / "devcontainer.json"
    config.write_text(config.read_text().replace('"compose.yaml"', '["compose.yaml", "db.yml", "../x.yml", "/y.yml"]'))
    added = (root / ".devcontainer" / "db.yml", root / "x.yml", Path("/y.yml"))
    assert stack_files(root, OURS) == (root / OURS, *added)
    init(root, dotenv=True)
    assert stack_files(root, OURS) == (root / OURS, *added)
    (root / ".env").write_text(f"COMPOSE_FILE={OURS}:/y.yml\n")
    assert stack_files(root, OURS) == (root / OURS, Path("/y.yml"), *added[:2])


@each(
    ("said", "environ", "name"),
    [
        ("AGENT_SANDBOX_STACK=app-1\n", {}, None),
        ("", {}, None),
        ("AGENT_SANDBOX_STACK=other\n", {}, "other"),
        ("AGENT_SANDBOX_STACK=app-1\nexport AGENT_SANDBOX_STACK='other'", {}, "other"),
        ("AGENT_SANDBOX_STACK=app-1\n", {"AGENT_SANDBOX_STACK": "other"}, "other"),
        ("AGENT_SANDBOX_STACK=other\n", {"AGENT_SANDBOX_STACK": "app-1"}, None),
    ],
)
def test_rejects_a_value_of_agent_sandbox_stack_that_names_another_stack(
    said: str, environ: dict[str, str], name: str | None
) -> None:
    with TemporaryDirectory() as folder:
        (Path(folder) / ".devcontainer").mkdir()
        (Path(folder) / ".devcontainer" / ".env").write_text(said)
        try:
            require_editor_name(Path(folder), "app-1", environ)
        except UserError as error:
            hint = "unset AGENT_SANDBOX_STACK in your shell, and remove .devcontainer/.env: agent-sandbox up writes "
            hint += "it again"
            what = f"AGENT_SANDBOX_STACK is {name}: an editor starts the stack under this name"
            assert str(error) == f"{folder}: {what}; {hint}"  # noqa: PT017 - some are refused
        else:
            assert name is None


@each(
    ("text", "hidden"),
    [
        ("AGENT_SANDBOX_STACK=app-1\n\fCOMPOSE_PROJECT_NAME=other\n", "COMPOSE_PROJECT_NAME"),
        ("AGENT_SANDBOX_STACK=app-1\n\fAGENT_SANDBOX_STACK=other\n", "AGENT_SANDBOX_STACK"),
        ("AGENT_SANDBOX_STACK=other\nA='x\\'\nAGENT_SANDBOX_STACK=app-1\nB='\n", "AGENT_SANDBOX_STACK"),
        ("\ufeffAGENT_SANDBOX_STACK=other\n", "AGENT_SANDBOX_STACK"),
        ("AGENT_SANDBOX_STACK\n", "AGENT_SANDBOX_STACK"),
        ("# MY_AGENT_SANDBOX_STACK\nAGENT_SANDBOX_STACK=app-1 # mine\n", None),
    ],
)
def test_rejects_names_that_the_engine_could_read_differently(text: str, hidden: str | None) -> None:
    with TemporaryDirectory() as folder:
        (Path(folder) / ".devcontainer").mkdir()
        (Path(folder) / ".devcontainer" / ".env").write_text(text)
        try:
            require_editor_name(Path(folder), "app-1", {})
        except UserError as error:
            what = f"it names {hidden} where the engine could read another value than agent-sandbox does"
            said = [(problem.where, problem.what) for problem in error.problems]
            assert said == [(f"{folder}/.devcontainer/.env", what)]
        else:
            assert hidden is None
