"""Every option of `init` that shapes the stack is a key of the project file."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_sandbox.features.stack.commands.init import init
from agent_sandbox.project.render.paths import PROJECT_FILE
from project_files import FIRST, SECOND
from run_cli import Ask, ask, empty_project

__all__ = ["ask", "empty_project"]

# The options, and the keys that they write to the project file.
KEYS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "agents": ((FIRST, SECOND, "--memory=4g"), {"agents": [FIRST, SECOND]}),
    "name": (("--name=App",), {"name": "App"}),
    "ide": (("--ide=none",), {"ide": "none"}),
    "memory": (("--memory=4g",), {"limits": {"memory": "4g"}}),
    "cpus": (("--cpus=1.5",), {"limits": {"cpus": 1.5}}),
    "pids": (("--pids=99",), {"limits": {"pids": 99}}),
    "languages": (("--with=go",), {"packages": ["golang"]}),
    "base_image": (("--base-image=debian:13",), {"base_image": "debian:13"}),
}
# The other options, and what they change instead.
NO_KEYS = {
    "provider": "the first policy",
    "detect": "the first policy",
    "no_detect": "the first policy",
    "with_settings": "this user's own settings",
    "no_settings": "this user's own settings",
    "dotenv": "plain `docker compose` in this directory",
    "no_dotenv": "plain `docker compose` in this directory",
    "gitignore": "git's list of files",
    "path": "this call",
    "force": "this call",
    "dry_run": "this call",
    "as_json": "this call",
}


def test_each_option_is_listed_as_a_key_or_as_no_key() -> None:
    assert {*inspect.signature(init).parameters} == {*KEYS, *NO_KEYS}


@pytest.mark.parametrize("option", KEYS)
def test_each_option_writes_its_key(empty_project: Path, ask: Ask, option: str) -> None:
    words, expected = KEYS[option]
    agents = () if option == "agents" else (FIRST,)
    assert ask("init", *agents, *words).code == 0
    said = yaml.safe_load((empty_project / PROJECT_FILE).read_text())
    assert {**said, **expected} == said
