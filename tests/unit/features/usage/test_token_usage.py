import json
from pathlib import Path
from typing import Any

import pytest

from agent_sandbox.agents.catalogue import known_agents, load_manifest
from agent_sandbox.agents.together import Agents
from agent_sandbox.engines.compose.driver import DRIVER
from agent_sandbox.engines.container import StackFound
from agent_sandbox.features.usage import token_usage as module
from agent_sandbox.features.usage.token_usage import (
    AgentUsage,
    NotAnAnswerError,
    Tokens,
    question,
    read_usage,
    total,
)
from agent_sandbox.project.project import Project
from agent_sandbox.resources import data_root
from agent_sandbox.stack.recorded import Owner
from agent_sandbox.stack.services.agent import local_volume, state_volumes
from table_tests import each

TEMPLATES = data_root() / "templates"
AGENT, OTHER = (load_manifest(TEMPLATES, name) for name in known_agents(TEMPLATES)[1:3])
KEY, PATH = next(iter(state_volumes(AGENT).items()))
PROJECT = Project(
    root=Path("/app"), name="app-1", agents=(AGENT.name,), owner=Owner(uid=501, gid=20), images=(), files=()
)


def counts(tokens: int, **others: object) -> dict[str, Any]:
    names = ("inputTokens", "outputTokens", "cacheCreationTokens", "cacheReadTokens")
    return {**dict.fromkeys(names, tokens), **others}


def row(agent: str, *models: dict[str, Any], tokens: int = 1, cost: object = 0.5) -> dict[str, Any]:
    return counts(tokens, agent=agent, totalCost=cost, modelBreakdowns=list(models))


def answer(*days: list[dict[str, Any]]) -> str:
    return json.dumps({"daily": [{"agents": day} for day in days]})


def sum_of(tokens: int, cost: float) -> Tokens:
    return Tokens(input=tokens, output=tokens, cache_creation=tokens, cache_read=tokens, cost=cost)


def test_days_are_added_up_by_agent_and_model_and_the_most_expensive_is_first() -> None:
    model = counts(1, modelName="small", cost=0.5)
    found = read_usage(answer([row("a", model), row("b", tokens=9, cost=7)], [row("a", model, tokens=2, cost=1)]))
    assert found == (
        AgentUsage(agent="b", tokens=sum_of(9, 7)),
        AgentUsage(agent="a", tokens=sum_of(3, 1.5), models={"small": sum_of(2, 1)}),
    )
    assert total(found) == sum_of(12, 8.5)
    assert total(found).total == 48
    assert read_usage(answer()) == ()


INVALID = [
    "",
    "[]",
    "{}",
    '{"daily": {}}',
    '{"daily": [1]}',
    '{"daily": [{"agents": [1]}]}',
    answer([{**row("a"), "inputTokens": -1}]),
    answer([{**row("a"), "inputTokens": 1.5}]),
    answer([{**row("a"), "inputTokens": True}]),
    answer([{**row("a"), "inputTokens": 1 << 60}]),
    answer([{**row("a"), "inputTokens": "1"}]),
    answer([row("a", cost=-1)]),
    answer([row("a", cost="1")]),
    answer([row("a", cost=True)]),
    answer([row("a")]).replace("0.5", "1e308"),
    answer([row("a")]).replace("0.5", "1e999"),
    answer([row("a")]).replace("0.5", "NaN"),
    answer([row("a", {"modelName": "x"})]),
    "[" * 100_000,
]


@each("text", INVALID)
def test_rejects_invalid_answers(text: str) -> None:
    with pytest.raises(NotAnAnswerError):
        read_usage(text)


def test_limits_the_number_of_rows_and_the_number_and_length_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NAMES", 2)
    found = read_usage(answer([row("x" * 999, cost=9), row("b"), row("c"), row("d")]))
    assert [one.agent for one in found] == ["x" * 100, "(others)", "b"]
    monkeypatch.setattr(module, "MOST_ROWS", 2)
    with pytest.raises(NotAnAnswerError):
        read_usage(answer([row("a"), row("b")], [row("c")]))


def test_reads_the_state_volumes_of_all_agents_as_their_owner() -> None:
    local = local_volume(Agents((AGENT,)))
    other = next(iter(state_volumes(OTHER)))  # of an agent that the stack had before
    volumes = (f"app-1_{KEY}", f"app-1_{other}", f"app-1_{local}", "app-1_log", "app-1_state-gone", "app-1_state-")
    asked = question(DRIVER, PROJECT, StackFound(name="app-1", volumes=volumes), "2026-01-31")
    assert asked
    assert [word for word in asked.argv if word.startswith("type=volume")] == [
        f"type=volume,source=app-1_{key},target=/state/{path},readonly,volume-nocopy"
        for key, path in ((KEY, PATH), (other, state_volumes(OTHER)[other]), (local, ".local"))
    ]
    assert (asked.argv[-2:], "--user 501:20 " in str(asked)) == (("--since", "2026-01-31"), True)
    assert "--offline" in asked.argv
    assert question(DRIVER, PROJECT, StackFound(name="app-1", volumes=("app-1_log",)), "") is None


def test_leaves_out_agents_whose_manifest_is_missing() -> None:
    project = Project(root=Path("/app"), name="app-1", agents=("gone",), owner=Owner(), images=(), files=())
    volumes = ("app-1_state-gone", "app-1_local-gone")
    assert question(DRIVER, project, StackFound(name="app-1", volumes=volumes), "") is None
