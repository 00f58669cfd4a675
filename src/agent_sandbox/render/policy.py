"""Render a project's first policy.yaml: services, and comments that show how to allow more."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_sandbox.agents.manifest import AgentManifest
from agent_sandbox.detect import Offer
from agent_sandbox.render.faithful import load_yaml, require_same
from agent_sandbox.render.template import Templates
from agent_sandbox.stack.workspace import Ide

FILE = "policy.yaml"
IDE_TITLES = {Ide.VSCODE: "VS Code", Ide.JETBRAINS: "the JetBrains IDE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """The hosts that the project's files name: those to allow, and those left for the user to choose.

    With `detect`, hosts that this machine's configuration also names are allowed; a project's files may come from a
    stranger.
    """

    allowed: tuple[Offer, ...] = ()
    left: tuple[Offer, ...] = ()
    detect: bool = False


def render_policy(
    templates: Templates, manifest: AgentManifest, ide: Ide, offered: Offered, providers: Sequence[str] = ()
) -> str:
    """Return the text of policy.yaml, parsed back and compared."""
    wanted = (*manifest.services, *providers)
    services = [{"name": name, "why": f"what {manifest.title} connects to"} for name in wanted]
    if ide in IDE_TITLES:
        services.append({"name": ide.value, "why": f"what {IDE_TITLES[ide]} downloads into the container"})
    text = templates.render(
        f"_shared/{FILE}.j2",
        title=manifest.title,
        services=services,
        providers=[] if providers else manifest.providers,
        offered=offered,
    )
    require_same(FILE, expected=_document(services, offered.allowed), actual=load_yaml(text))
    return text


def _document(services: Sequence[dict[str, str]], allowed: Sequence[Offer]) -> dict[str, Any]:
    return {
        "version": 1,
        "services": [service["name"] for service in services] or None,
        "domains": [_entry(offer) for offer in allowed] or None,
    }


def _entry(offer: Offer) -> dict[str, Any]:
    ports = {"ports": list(offer.ports)} if offer.ports else {}
    slash = {"encoded_slash": True} if offer.encoded_slash else {}
    return {"host": offer.host, **ports, **slash, "rules": [{"methods": ["GET"], "schemes": list(offer.schemes)}]}
