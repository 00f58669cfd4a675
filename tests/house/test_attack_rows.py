"""Each row of the attacks names existing tests, or the reason why there is none."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from score import ROWS, is_of, is_of_any, named

TESTS = Path(__file__).resolve().parents[1]
ALL = [(attack, said) for rows in ROWS.values() for attack, said in rows.items()]


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return the functions of a module, without those that only `make nightly` runs."""
    body = ast.parse(path.read_text()).body
    assert "pytestmark = pytest.mark.nightly" not in map(ast.unparse, body)
    found = (node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in found if "pytest.mark.nightly" not in map(ast.unparse, node.decorator_list))


@pytest.mark.parametrize(("attack", "said"), ALL, ids=[attack.split()[0] for attack, _ in ALL])
def test_each_row_names_existing_tests_or_a_reason_for_none(attack: str, said: Any) -> None:  # noqa: ANN401 - data
    if isinstance(said, dict):
        assert list(said) == ["open"]
        assert said["open"]
        return
    assert said, attack
    for test in said:
        file, _, name = test.partition("::")
        path = TESTS / file
        assert path.is_file(), test
        assert not name or name in names_in(path), test


def test_the_figures_in_the_readme_are_correct() -> None:
    readme = (TESTS.parent / "README.md").read_text("utf-8")
    (listed,) = re.findall(r"has more than (\d+), with their tests", readme)
    (unstopped,) = re.findall(r"which\s+(\d+) are not stopped yet", readme)
    assert (len(ALL) > int(listed), sum(isinstance(said, dict) for _, said in ALL)) == (True, int(unstopped))


def test_row_numbers_are_unique() -> None:
    numbers = [attack.split()[0] for attack, _ in ALL]
    assert len(numbers) == len(set(numbers))


def test_is_of_any_agrees_with_is_of() -> None:
    tests = named()
    whole = [test if "::" in test else f"{test}::test_x" for test in tests]
    tries = [f"{test}{end}" for test in whole for end in ("", "[x::y]", "_too")]
    assert {name: is_of_any({*tests}, name) for name in tries} == {
        name: any(is_of(test, name) for test in tests) for name in tries
    }
