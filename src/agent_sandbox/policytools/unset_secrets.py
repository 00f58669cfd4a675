"""Secrets that a policy has put in, and that nobody has given to the proxy for that host."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import override

from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach

SET = "agent-sandbox secret set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A secret by its name, and the hosts that it may go to, each in its one spelling."""

    name: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A secret that a rule waits for; `hosts` are all that it would then be bound to, none where one has to be chosen.

    >>> where = Origin(file="p.yaml", line=3, layer="project")
    >>> print(Wanted(secret="a", host="x.test", origin=where, hosts=("x.test",)))
    a is wanted by p.yaml:3 for x.test: agent-sandbox secret set a --host x.test
    """

    secret: str
    host: str
    origin: Origin
    hosts: tuple[str, ...]

    @property
    def place(self) -> str:
        """Who asks for it: a line of the user's, or a service, whose lines are ours."""
        return self.origin.layer if self.origin.layer.startswith("service ") else str(self.origin)

    @property
    def command(self) -> str:
        """What sets it: once more for the hosts of before, which setting it for one alone would take away."""
        return " ".join((SET, self.secret, *(f"--host {_typed(host)}" for host in self.hosts or ("HOST",))))

    @override
    def __str__(self) -> str:
        choose = "" if self.hosts else "name the host that is meant: "
        return f"{self.secret} is wanted by {self.place} for {self.host}: {choose}{self.command}"


def wanted(policy: Policy, bound: Sequence[Bound]) -> list[Wanted]:
    """Return what is missing, by name; one line for each secret and host, with the first rule that asks."""
    hosts = {one.name: one.hosts for one in bound}
    missing = {
        (secret, pattern): origin
        for secret, pattern, origin in _asked(policy)
        if not any(map(pattern.matches, hosts.get(secret, ())))
    }
    return [
        Wanted(secret=secret, host=str(pattern), origin=origin, hosts=_together(secret, pattern, missing, hosts))
        for (secret, pattern), origin in sorted(missing.items(), key=lambda row: (row[0][0], _place(row[1])))
    ]


def unheard(policy: Policy, bound: Bound) -> Iterator[str]:
    """Yield why what was bound goes nowhere, in whole or in part."""
    asked = list(_asked(policy))
    wanting = sorted({str(pattern) for secret, pattern, _ in asked if secret == bound.name})
    if not wanting:
        names = ", ".join(sorted({secret for secret, _, _ in asked}))
        yield f"nothing in the policy wants {bound.name} yet{f'; it wants {names}' if names else ''}"
        return
    for host in bound.hosts:
        if not any(pattern.matches(host) for secret, pattern, _ in asked if secret == bound.name):
            yield f"the policy wants {bound.name} for {', '.join(wanting)}, and not for {host}"


def _asked(policy: Policy) -> Iterator[tuple[str, HostPattern, Origin]]:
    """Yield what is put in where; the first rule comes last, and stays."""
    for rule in sorted(policy.rules.rules, key=lambda rule: _place(rule.origin), reverse=True):
        if rule.effect is Effect.ALLOW and rule.conditions.inject is not None:
            for credential in rule.conditions.inject.credentials:
                yield credential.secret, rule.conditions.host, rule.origin


def _together(
    secret: str,
    pattern: HostPattern,
    missing: Mapping[tuple[str, HostPattern], Origin],
    hosts: Mapping[str, tuple[str, ...]],
) -> tuple[str, ...]:
    if pattern.reach is not Reach.EXACT:
        return ()
    more = (other.name for name, other in missing if name == secret and other.reach is Reach.EXACT)
    return tuple(sorted({*hosts.get(secret, ()), *more}))


def _place(origin: Origin) -> tuple[str, int]:
    return origin.file, origin.line


def _typed(host: str) -> str:
    """Return a host as options take it."""
    return f"[{host}]" if ":" in host else host
