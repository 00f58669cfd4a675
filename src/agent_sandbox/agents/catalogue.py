"""Find and load agent manifests, `templates/<agent>/agent.yaml`."""

from pathlib import Path
from typing import Any

from agent_sandbox.agents.manifest import AgentManifest, parse_manifest
from agent_sandbox.problems import Problem, UserError

MANIFEST = "agent.yaml"


def known_agents(templates: Path) -> tuple[str, ...]:
    """Return the names of all agents, sorted; folders that start with `_` contain shared files."""
    return tuple(sorted(path.parent.name for path in templates.glob(f"[!_.]*/{MANIFEST}")))


def load_manifest(templates: Path, agent: str) -> AgentManifest:
    """Return an agent's manifest; for an unknown agent, raise UserError with the known ones and the nearest."""
    import yaml  # noqa: PLC0415 - most commands read no manifest

    known = known_agents(templates)
    if agent not in known:
        raise UserError([_unknown(agent, known)])
    path = templates / agent / MANIFEST
    try:
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        document = yaml.load(path.read_text(encoding="utf-8"), loader)  # noqa: S506 - safe, and in C where there is one
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError([Problem(where=str(path), what=f"is not YAML: {error}")]) from error
    manifest = parse_manifest(document, file=str(path))
    if manifest.name != agent:
        raise UserError([Problem(where=str(path), what=f"`name` is `{manifest.name}`, but the folder is `{agent}`")])
    return manifest


def _unknown(agent: str, known: tuple[str, ...]) -> Problem:
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake pays for it

    nearest = get_close_matches(agent.lower(), known, n=1, cutoff=0.5)
    guess = f"did you mean `{nearest[0]}`? " if nearest else ""
    return Problem(where="", what=f"no such agent `{agent}`", hint=f"{guess}known agents: {', '.join(known)}")
