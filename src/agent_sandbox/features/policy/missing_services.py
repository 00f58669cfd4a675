"""Find what the policy lacks: services of the agents, as after a change of agents, and hosts of MCP servers."""

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from agent_sandbox.host.agents import load_agents
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.problems import UserError
from agent_sandbox.project.project import Project
from agent_sandbox.project.render.paths import PROJECT_FILE

LACKING = "no policy names the service `{0}`, which {1} needs for its API: agent-sandbox policy allow {0}"
DENIED = "the policy denies the MCP server `{0}`: agent-sandbox policy allow 'GET,POST,DELETE {1}'"
INSIDE = frozenset({"localhost", "127.0.0.1"})


def missing_services(project: Project, load: Callable[[], Policy]) -> tuple[str, ...]:
    """Return a note for each missing service and denied MCP server; nothing for a policy that does not load."""
    try:
        named = {rule.origin.layer for rule in load().rules.rules}
        agents = load_agents(project.agents)
        denied = tuple(denied_servers(project, load))
    except UserError:
        return ()
    lacking = (name for name in agents.services if f"service {name}" not in named)
    return (*(LACKING.format(name, agents.connecting_to(name).names[0]) for name in lacking), *denied)


def denied_servers(project: Project, load: Callable[[], Policy]) -> Iterator[str]:
    """Yield a note for each MCP server that agents cannot connect to; raise UserError for an invalid file."""
    text = project.made_of.get(PROJECT_FILE, "")
    if "url" not in text and "\\" not in text:
        return  # most projects: parsing takes longer than all the rest
    from agent_sandbox.policytools.explain.explaining import answer  # noqa: PLC0415 - as above
    from agent_sandbox.policytools.explain.request_line import RequestLine  # noqa: PLC0415 - as above
    from agent_sandbox.projectfile.parsing import parse_project_file  # noqa: PLC0415 - as above

    for name, spec in parse_project_file(text, file=PROJECT_FILE).mcp.items():
        url = (spec.url or "").partition("?")[0]
        if urlsplit(url).hostname in INSIDE or not url:
            continue
        if not answer(load(), RequestLine(method="POST", url=url)).decision.allowed:
            yield DENIED.format(name, url)
