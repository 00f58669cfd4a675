import json
import platform

from agent_sandbox import __version__
from agent_sandbox.agents.catalogue import known_agents, load_manifest
from agent_sandbox.resources import data_root
from run_cli import Ask


def test_prints_the_versions_of_program_python_and_agents(ask: Ask) -> None:
    answer = ask("version")
    lines = answer.out.splitlines()
    assert lines[0] == f"agent-sandbox  {__version__}"
    assert lines[1] == f"Python         {platform.python_version()}"
    assert [line.split()[0] for line in lines[3:]] == list(known_agents(data_root() / "templates"))


def test_json_output_has_all_versions(ask: Ask) -> None:
    templates = data_root() / "templates"
    assert json.loads(ask("version", "--json").out) == {
        "agent-sandbox": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "agents": {name: load_manifest(templates, name).version for name in known_agents(templates)},
    }
