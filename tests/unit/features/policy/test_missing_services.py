from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import known_agents
from agent_sandbox.features.policy.missing_services import missing_services
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policyfile import load_policy
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.installed import read_project
from agent_sandbox.resources import data_root

AGENT, FORMER = known_agents(data_root() / "templates")[:2]
TOLD = f"no policy names the service `{AGENT}`, which {AGENT} needs for its API: agent-sandbox policy allow {AGENT}"


@pytest.mark.parametrize(
    ("services", "expected"), [(AGENT, ()), (f"{{name: {AGENT}}}, {FORMER}", ()), (FORMER, (TOLD,)), ("", (TOLD,))]
)
def test_reports_an_agent_whose_service_no_policy_names(
    tmp_path: Path, services: str, expected: tuple[str, ...]
) -> None:
    folder = tmp_path / ".devcontainer"
    folder.mkdir()
    (folder / "docker-compose.yml").write_text(f'x-agent-sandbox: {{agent: {AGENT}, dev: "1:1"}}\nname: app-1\n')
    (folder / "policy.yaml").write_text(f"services: [{services}]\n")
    project = read_project(tmp_path)
    assert missing_services(project, lambda: load_policy(project.policy)) == expected


@pytest.mark.parametrize(
    ("servers", "allowed", "expected"),
    [
        ("{a: {url: 'https://mcp.test/mcp?k=1'}}", "", "https://mcp.test/mcp"),
        ("{a: {url: 'https://mcp.test/mcp'}}", "GET https://mcp.test/**", "https://mcp.test/mcp"),
        ("{a: {url: 'https://mcp.test/mcp'}}", "GET,POST,DELETE https://mcp.test/mcp", ""),
        ("{a: {url: 'http://localhost:3000/'}, b: {url: 'http://127.0.0.1/'}, c: {command: url}}", "", ""),
        ("{a: {url: nonsense}}", "", ""),
    ],
)
def test_reports_a_denied_mcp_server_with_the_command_that_allows_it(
    tmp_path: Path, servers: str, allowed: str, expected: str
) -> None:
    folder = tmp_path / ".devcontainer"
    folder.mkdir()
    (folder / "docker-compose.yml").write_text(f'x-agent-sandbox: {{agent: {AGENT}, dev: "1:1"}}\nname: app-1\n')
    (folder / "policy.yaml").write_text(f"services: [{AGENT}]\n" + (f"allow: ['{allowed}']\n" if allowed else ""))
    (folder / "sandbox.yaml").write_text(f"mcp: {servers}\n")
    project = read_project(tmp_path)
    said = f"the policy denies the MCP server `a`: agent-sandbox policy allow 'GET,POST,DELETE {expected}'"
    assert missing_services(project, lambda: load_policy(project.policy)) == ((said,) if expected else ())


def test_reports_nothing_for_an_invalid_policy(tmp_path: Path) -> None:
    folder = tmp_path / ".devcontainer"
    folder.mkdir()
    (folder / "docker-compose.yml").write_text(f'x-agent-sandbox: {{agent: {AGENT}, dev: "1:1"}}\nname: app-1\n')

    def load() -> Policy:
        raise UserError([Problem(where="policy.yaml:1:1", what="wrong")])

    assert missing_services(read_project(tmp_path), load) == ()
