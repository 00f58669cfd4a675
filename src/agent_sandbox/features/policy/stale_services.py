"""Report resolved services whose registries differ from those that this machine's configuration names now."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_sandbox.features.policy.registries import Machine, Naming, answers, whole
from agent_sandbox.features.policy.remembered_answers import INPUTS, remembered_answers
from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policyfile import services_beside
from agent_sandbox.policyfile.named_services import named_here
from agent_sandbox.policyfile.resolved import MIRRORED, MIRRORS, RESOLVED
from agent_sandbox.problems import UserError

NEW = "{} now names {}, which the service `{}` does not allow yet: agent-sandbox policy allow {}"
GONE = "{} no longer names {}, which the service `{}` still allows: agent-sandbox policy allow {}"
TOOL_OF = {**RESOLVED, **MIRRORED}
NAMED_BY = "named by "
# What a resolved file calls a source on this machine: a variable, the configuration of a tool, a file elsewhere.
OF_MACHINE = re.compile(r"[A-Za-z_]+|\w+'s (?:configuration|own default)|~?/[\w./+@-]+")


def stale_services(policy: Path, machine: Machine, *, afresh: bool = False) -> tuple[str, ...]:
    """Return a note for each difference; nothing for a service for which this machine names no registry.

    `afresh` asks the tools even if nothing seems to have changed.
    """
    try:
        services = services_beside(policy)
        named = named_here(policy) if services.found else ()
        layers = {name: services[name] for name in services.found if name in named}
    except UserError:
        return ()  # loading the policy reports it
    return tuple(
        note
        for name, layer in layers.items()
        for note in _notes(
            MIRRORS.get(name, name),
            layer,
            tuple(answers(name, machine) if afresh or name not in INPUTS else remembered_answers(name, machine)),
        )
    )


def _notes(name: str, layer: Layer, now: Sequence[Naming]) -> Iterator[str]:
    allowed = {
        (scheme, str(entry.host), port)
        for entry in layer.spec.domains
        for rule in entry.rules
        for scheme in rule.schemes
        for port in entry.ports
    }
    hosts = {place[1] for _, place in now}
    for host, by in {place[1]: by for by, place in now if whole(place) not in allowed}.items():
        yield NEW.format(by, host, name, TOOL_OF[name])
    for entry in layer.spec.domains if now else ():
        sources = entry.reason.removeprefix(NAMED_BY).split(", ")
        if str(entry.host) not in hosts and all(map(OF_MACHINE.fullmatch, sources)):
            yield GONE.format(", ".join(sources), entry.host, name, TOOL_OF[name])
