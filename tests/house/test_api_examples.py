"""The examples in the document of the Python API work as shown."""

import doctest
import re
from pathlib import Path

import pytest

from agent_sandbox import policy

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "policy" / "api.md"


def test_every_example_of_the_api_works_as_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = doctest.testfile(str(DOCUMENT), module_relative=False)
    assert (result.failed, result.attempted > 10) == (0, True)


def test_the_examples_import_only_public_names() -> None:
    shown = re.findall(r"from agent_sandbox\.policy import (.+)", DOCUMENT.read_text("utf-8"))
    names = {name.strip() for line in shown for name in line.split(",")}
    assert names <= set(policy.__all__)
