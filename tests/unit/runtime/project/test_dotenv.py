import time
from pathlib import Path

import pytest

from agent_sandbox.problems import UserError
from agent_sandbox.runtime.project.dotenv import MAX_FILES, stack_files, variable
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
def test_no_text_takes_long(text: str) -> None:
    started = time.process_time()
    variable(text, "A")
    assert time.process_time() - started < 0.1


def test_without_a_dotenv_the_stack_is_our_file(tmp_path: Path) -> None:
    assert stack_files(tmp_path, OURS) == (tmp_path / OURS,)


@pytest.mark.parametrize("value", [".devcontainer/docker-compose.yml", "", "other.yml", "other.yml:more.yml"])
def test_a_dotenv_that_does_not_name_our_file_beside_others_changes_nothing(tmp_path: Path, value: str) -> None:
    (tmp_path / ".env").write_text(f"COMPOSE_FILE={value}\n")
    assert stack_files(tmp_path, OURS) == (tmp_path / OURS,)


def test_files_beside_ours_are_taken_in_their_order(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"COMPOSE_FILE={OURS}:extra.yml\n")
    assert stack_files(tmp_path, OURS) == (tmp_path / OURS, tmp_path / "extra.yml")


def test_the_separator_may_be_another(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"COMPOSE_PATH_SEPARATOR=,\nCOMPOSE_FILE={OURS},a:b.yml\n")
    assert stack_files(tmp_path, OURS) == (tmp_path / OURS, tmp_path / "a:b.yml")


def test_a_dotenv_that_is_no_text_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"COMPOSE_FILE=\xff\n")
    with pytest.raises(UserError) as raised:
        stack_files(tmp_path, OURS)
    assert str(raised.value) == f"{tmp_path}/.env: not UTF-8 text at byte 13; save it as UTF-8"


def test_more_files_than_anybody_names_are_a_problem(tmp_path: Path) -> None:
    names = [str(OURS), *("x.yml" for _ in range(MAX_FILES))]
    (tmp_path / ".env").write_text(f"COMPOSE_FILE={':'.join(names[:-1])}\n")
    assert len(stack_files(tmp_path, OURS)) == MAX_FILES
    (tmp_path / ".env").write_text(f"COMPOSE_FILE={':'.join(names)}\n")
    with pytest.raises(UserError) as raised:
        stack_files(tmp_path, OURS)
    assert str(raised.value) == (
        f"{tmp_path}/.env: `COMPOSE_FILE` names 33 files; at most 32 are allowed; merge some of them"
    )
