from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import known_agents, load_manifest
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.resources import data_root
from table_tests import each

MANIFEST = """
name: example
title: Example
summary: An agent
install: {npm: {package: example, version: 1.2.3}}
command: [example]
unattended: {arguments: [--yes]}
version_command: [example, --version]
state: [.example]
services: [example]
"""


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    for name in ("example", "other", "_shared", ".hidden"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "agent.yaml").write_text(MANIFEST)
    (tmp_path / "no-agent").mkdir()
    return tmp_path


def problems(templates: Path, agent: str) -> tuple[Problem, ...]:
    with pytest.raises(UserError) as raised:
        load_manifest(templates, agent)
    return raised.value.problems


def test_every_folder_with_a_manifest_is_an_agent(templates: Path) -> None:
    assert known_agents(templates) == ("example", "other")


def test_loads_an_agent_by_its_name(templates: Path) -> None:
    assert load_manifest(templates, "example").title == "Example"


@pytest.mark.parametrize("agent", known_agents(data_root() / "templates"))
def test_every_shipped_manifest_loads(agent: str) -> None:
    assert load_manifest(data_root() / "templates", agent).name == agent


def test_an_unknown_agent_is_reported_with_the_nearest_and_all_known_agents(templates: Path) -> None:
    hint = "did you mean `example`? known agents: example, other"
    assert problems(templates, "Exampel") == (Problem(where="", what="no such agent `Exampel`", hint=hint),)


def test_suggests_no_agent_if_no_name_is_similar(templates: Path) -> None:
    assert problems(templates, "zzz")[0].hint == "known agents: example, other"


@each("agent", ["", "..", "../example", "/etc", "_shared", ".hidden", "example/", "no-agent"])
def test_rejects_names_that_leave_the_catalogue(templates: Path, agent: str) -> None:
    assert problems(templates, agent)[0].what == f"no such agent `{agent}`"


def test_a_manifest_that_names_another_agent_is_refused(templates: Path) -> None:
    assert problems(templates, "other")[0].what == "`name` is `example`, but the folder is `other`"


def test_reports_all_problems_of_a_manifest_at_once(templates: Path) -> None:
    (templates / "example" / "agent.yaml").write_text(MANIFEST + "nmae: x\nenv: {a: b}\n")
    assert len(problems(templates, "example")) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"a: [", "2:1: invalid YAML: did not find expected node content"),
        (b"a\xff", "1:2: byte 0xff is not UTF-8; save the file as UTF-8"),
    ],
    ids=["syntax", "bytes"],
)
def test_reports_a_manifest_that_is_not_yaml(templates: Path, text: bytes, told: str) -> None:
    file = templates / "example" / "agent.yaml"
    file.write_bytes(text)
    assert [*map(str, problems(templates, "example"))] == [f"{file}:{told}"]


def test_a_lock_that_is_not_text_is_rejected_by_its_line(templates: Path) -> None:
    file = templates / "example" / "agent.yaml"
    file.write_text(MANIFEST.replace("npm:", "pypi:"))
    file.with_name("requirements.txt").write_bytes(b"example==1.2.3 \\\n\xff\n")
    what = "requirements.txt:2 is neither a pinned version nor a sha256 hash"
    assert [*map(str, problems(templates, "example"))] == [f"{file}:5:17: {what}"]
