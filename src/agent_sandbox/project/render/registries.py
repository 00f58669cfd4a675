"""Render the file of a resolved service: read-only rules for the registries found, each with its source."""

from collections.abc import Sequence

from agent_sandbox.detect import Offer
from agent_sandbox.policy.http.request import DEFAULT_PORTS
from agent_sandbox.policyfile.resolved import COMMAND, FOLDER, MIRRORS, TOOLS
from agent_sandbox.project.render.formats.scalar import to_yaml
from agent_sandbox.project.render.reconcile import Change, OnConflict, generated

RISK = "fetched code runs in the sandbox; the registry sees the requested names"
# npm requests a scoped package as `@scope%2Fname`.
ENCODED_SLASH = {"node"}


def path_of(name: str) -> str:
    """Return a service file's path relative to the policy's folder."""
    return f"{FOLDER}/{name}.yaml"


def resolved_service(
    name: str, offers: Sequence[Offer], *, date: str, before: str | None, on_conflict: OnConflict
) -> Change:
    """Return the change of the service's file."""
    body = render_registries(name, offers, date=date)
    command = f"{COMMAND} {MIRRORS.get(name, name)}"
    return generated(path_of(name), before, body, comment="#", on_conflict=on_conflict, command=command)


def render_registries(name: str, offers: Sequence[Offer], *, date: str) -> str:
    """Return a service file with an entry for each host."""
    head = (
        "version: 1",
        f"title: {to_yaml(f'Packages, from where {TOOLS[name]} and this project fetch them')}",
        f'date: "{date}"',
        "reason: The registries that are configured, for reading. Publishing needs a rule in policy.yaml.",
        "domains:",
    )
    return "\n".join((*head, *(line for offer in offers for line in _entry(name, offer)))) + "\n"


def _entry(name: str, offer: Offer) -> list[str]:
    ports = offer.ports or tuple(sorted(DEFAULT_PORTS[scheme] for scheme in offer.schemes))
    scheme, usual = offer.schemes[0], DEFAULT_PORTS[offer.schemes[0]]
    port = "" if usual in ports else f":{ports[0]}"
    return [
        f"  - host: {to_yaml(offer.host)}",
        f"    ports: {to_yaml(ports)}",
        *(["    encoded_slash: true"] if name in ENCODED_SLASH else []),
        f"    reason: {to_yaml('named by ' + ', '.join(offer.files))}",
        f"    risk: {to_yaml(RISK)}",
        f"    probe: GET {scheme}://{offer.host}{port}/",
        f"    rules: [{{methods: [GET], schemes: {to_yaml(offer.schemes)}}}]",
    ]
