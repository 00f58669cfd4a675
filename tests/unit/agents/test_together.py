from itertools import combinations
from typing import Any

import pytest

from agent_sandbox.agents.catalogue import known_agents, load_manifest
from agent_sandbox.agents.manifest import AgentManifest, Unattended
from agent_sandbox.agents.pin import Pin
from agent_sandbox.agents.together import APART, Agents, pinned
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.resources import data_root
from table_tests import each

FOLDER = data_root() / "templates"
HASH = f"sha512-{'A' * 86}=="
ONE, OTHER = (load_manifest(FOLDER, name) for name in ("claude", "codex"))
PINNED = pinned(ONE, Pin(version="1000.2.3"))


def replace(manifest: AgentManifest, **changes: object) -> AgentManifest:
    return manifest.model_copy(update=changes)


def faults(*manifests: AgentManifest) -> tuple[Problem, ...]:
    with pytest.raises(UserError) as raised:
        Agents(manifests)
    return raised.value.problems


def test_any_two_built_in_agents_can_share_a_sandbox() -> None:
    manifests = [load_manifest(FOLDER, name) for name in known_agents(FOLDER)]
    assert [Agents(pair).names for pair in combinations(manifests, 2)]
    assert Agents(tuple(manifests)).names == known_agents(FOLDER)


@each(
    ("changes", "why"),
    [
        ({"command": ("claude",)}, "both install the program `claude`"),
        ({"state": (".claude/inner",)}, "both keep their state in ~/.claude/inner"),
        ({"state": (".x", ".claude")}, "both keep their state in ~/.claude"),
        ({"env": {"DISABLE_AUTOUPDATER": "0"}}, "both set DISABLE_AUTOUPDATER, to different values"),
    ],
)
def test_rejects_agents_that_conflict(changes: dict[str, Any], why: str) -> None:
    what = f"claude and codex cannot share a sandbox: {why}"
    assert faults(ONE, replace(OTHER, **changes)) == (Problem(where="", what=what, hint=APART),)


def test_rejects_agents_with_the_same_initial_file() -> None:
    mine = replace(ONE, unattended=Unattended(files={".codex/config.toml": "x"}))
    what = "claude and codex cannot share a sandbox: both install an initial ~/.codex/config.toml"
    assert faults(mine, OTHER) == (Problem(where="", what=what, hint=APART),)


def test_accepts_agents_that_set_a_variable_to_the_same_value() -> None:
    assert Agents((ONE, replace(OTHER, env=ONE.env))).env == ONE.env


def test_rejects_agents_whose_names_are_too_long_for_an_image_name() -> None:
    many = [replace(ONE, name=f"{number:032}", command=(f"c{number}",), state=(f".s{number}",)) for number in range(6)]
    assert faults(*many)[0].what == "6 agents with names of 192 characters are too many for one sandbox"


def test_lists_each_service_once_and_the_agents_that_connect_to_it() -> None:
    both = Agents((replace(ONE, services=("a", "b")), replace(OTHER, services=("b",), providers=("c",))))
    assert both.services == ("a", "b")
    assert {name: both.connecting_to(name).names for name in ("a", "b", "c")} == {
        "a": ("claude",),
        "b": ("claude", "codex"),
        "c": ("codex",),
    }


def test_a_newer_pin_replaces_version_and_hash_and_an_older_pin_is_ignored() -> None:
    newer = pinned(PINNED, Pin(version="1000.2.4", integrity=HASH))
    assert (newer.version, newer.install.npm and newer.install.npm.integrity) == ("1000.2.4", HASH)
    assert pinned(PINNED, None) is PINNED
    assert pinned(PINNED, Pin(version="1000.2.3", integrity=HASH)) is PINNED
    assert pinned(PINNED, Pin(version="1000.2.2", integrity=HASH)) is PINNED


def test_ignores_a_pin_of_an_agent_that_npm_does_not_install() -> None:
    aider = load_manifest(FOLDER, "aider")
    assert pinned(aider, Pin(version="999.0.0", integrity=HASH)) is aider
