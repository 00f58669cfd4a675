"""Find the agent's services that the policy does not name, as after a change of agents."""

from collections.abc import Callable

from agent_sandbox.backends.project import Project
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.problems import UserError
from agent_sandbox.runtime.host.agents import load_agents

LACKING = "no policy names the service `{0}`, which {1} needs for its API: agent-sandbox policy allow {0}"


def missing_services(project: Project, load: Callable[[], Policy]) -> tuple[str, ...]:
    """Return a note for each missing service; nothing for a policy that does not load."""
    try:
        named = {rule.origin.layer for rule in load().rules.rules}
        agents = load_agents(project.agents)
    except UserError:
        return ()
    return tuple(
        LACKING.format(name, agents.connecting_to(name).names[0])
        for name in agents.services
        if f"service {name}" not in named
    )
