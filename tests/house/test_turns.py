"""The order of a whole run: what is ready comes first, and each module that needs more than a stack is prepared."""

import re
from pathlib import Path

import pytest

import turns
from engine import ROOT
from turns import LONGEST, NIGHTLY, ON_THE_ENGINE, PREPARED, STACKS, best_for, turn

E2E = ROOT / "tests" / "e2e"
UNIT, WALLS, BOOT = "tests/unit/test_main.py", "tests/e2e/test_walls.py", "tests/e2e/test_boot.py"


def test_exactly_the_modules_that_need_more_than_a_stack_are_prepared() -> None:
    found = {
        path.stem for path in E2E.glob("test_*.py") if re.search(r"^def prepare\(", path.read_text(), re.MULTILINE)
    }
    assert {*PREPARED} == found - (set() if NIGHTLY else {"test_first_day", "test_clock"})


def test_the_order_names_existing_files_on_the_engine() -> None:
    assert [file for file in (*LONGEST, *ON_THE_ENGINE) if not (ROOT / file).exists()] == []
    assert [file for file in LONGEST if not file.startswith(ON_THE_ENGINE)] == []
    assert sorted([UNIT, WALLS, *LONGEST], key=turn) == [*LONGEST, WALLS, UNIT]


def test_a_worker_on_the_engine_begins_what_is_ready_and_meanwhile_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "MARKS", tmp_path)
    waiting = [BOOT, WALLS, UNIT]
    began = [best_for(waiting, on_engine=True)]
    for made in (STACKS, "test_boot"):
        (tmp_path / made).touch()
        began.append(best_for(waiting, on_engine=True))
    assert began == [UNIT, WALLS, BOOT]
    assert best_for(waiting, on_engine=False) == UNIT
    assert [best_for([BOOT, WALLS], on_engine=False), best_for([UNIT], on_engine=True)] == [BOOT, UNIT]
