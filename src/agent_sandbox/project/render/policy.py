"""Render a project's first policy.yaml: services, and comments that show how to allow more."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from agent_sandbox.agents.together import Agents
from agent_sandbox.detect import Offer
from agent_sandbox.project.render.formats.faithful import load_yaml, require_same
from agent_sandbox.project.render.formats.template import Templates
from agent_sandbox.stack.recorded import Ide

FILE = "policy.yaml"
IDE_TITLES = {Ide.VSCODE: "VS Code", Ide.JETBRAINS: "the JetBrains IDE"}


class Offered(Struct, frozen=True, kw_only=True):
    """The services that the project's files show, and the hosts that they name: to allow, or left for the user.

    With `detect`, hosts that this machine's configuration also names are allowed; a project's files may come from a
    stranger.
    """

    allowed: tuple[Offer, ...] = ()
    left: tuple[Offer, ...] = ()
    detect: bool = False
    # With the files that show each.
    services: Mapping[str, tuple[str, ...]] = {}
    # Those whose languages the image of a new project gets.
    languages: Mapping[str, tuple[str, ...]] = {}


def render_policy(
    templates: Templates, agents: Agents, ide: Ide, offered: Offered, providers: Sequence[str] = ()
) -> str:
    """Return the text of policy.yaml, parsed back and compared."""
    wanted = dict.fromkeys((*agents.services, *providers))
    services = [{"name": name, "why": _why(agents.connecting_to(name))} for name in wanted]
    if ide in IDE_TITLES:
        services.append({"name": ide.value, "why": f"what {IDE_TITLES[ide]} downloads into the container"})
    named = {service["name"] for service in services}
    services += [
        {"name": name, "why": f"for {', '.join(files)}"}
        for name, files in offered.services.items()
        if name not in named
    ]
    text = templates.render(
        f"_shared/{FILE}.j2",
        title=agents.title,
        services=services,
        providers=[] if providers else agents.providers,
        offered=offered,
    )
    require_same(FILE, expected=_document(services, offered.allowed), actual=load_yaml(text))
    return text


def _why(agents: Agents) -> str:
    return f"what {agents.title} {'connect' if len(agents.names) > 1 else 'connects'} to"


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
