"""Find secrets that a policy would inject, but that are not set for the host."""

from collections.abc import Iterator, Mapping, Sequence
from typing import override

from msgspec import Struct

from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.http.host import OWN_HOST
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach, parse_host_pattern

SET, SET_UP_SIGNING = "agent-sandbox secret set", "agent-sandbox secret setup signing"
# The kind of a key that signs commits, as in the audit log.
SIGNS = "ssh-sign"
SETTING = Origin(file="settings.sign_commits", line=0, layer="project")


class Bound(Struct, frozen=True, kw_only=True):
    """The name of a set secret, the canonical hosts that it is bound to, and why it has no value, if it has none."""

    name: str
    hosts: tuple[str, ...]
    problem: str = ""


def single_host(text: str) -> str:
    """Return the canonical name of a host to bind a secret to, or raise InvalidValue."""
    pattern = parse_host_pattern(text)
    if pattern.reach is not Reach.EXACT:
        what = f"`{pattern}` is a wildcard, but a secret is bound to single hosts"
        raise InvalidValue(what, "name each host; otherwise any host below it would receive the secret")
    return pattern.name


class Wanted(Struct, frozen=True, kw_only=True):
    """A secret that a rule needs. `hosts` are those to bind it to, none if the user has to choose one.

    >>> where = Origin(file="p.yaml", line=3, layer="project")
    >>> print(Wanted(secret="a", host="x.test", origin=where, hosts=("x.test",)))
    p.yaml:3 needs a for x.test: agent-sandbox secret set a --host x.test
    """

    secret: str
    host: str
    origin: Origin
    hosts: tuple[str, ...]
    # The command that sets it, if it is not `secret set`.
    how: str = ""

    @property
    def rule(self) -> str:
        """The rule that needs it: a line of a policy file, or a setting."""
        return SETTING.file if self.origin == SETTING else str(self.origin)

    @property
    def place(self) -> str:
        """The same, or the name of a service."""
        return self.origin.layer if self.origin.layer.startswith("service ") else self.rule

    @property
    def command(self) -> str:
        """The command that sets it, including the hosts that it is bound to already: setting replaces them."""
        if self.how:
            return self.how
        return " ".join((SET, self.secret, *(f"--host {_typed(host)}" for host in self.hosts or ("HOST",))))

    @override
    def __str__(self) -> str:
        choose = "" if self.hosts else "choose the host: "
        return f"{self.place} needs {self.secret} for {self.host}: {choose}{self.command}"


def wanted(policy: Policy, bound: Sequence[Bound]) -> list[Wanted]:
    """Return the secrets that are not set, by name: one for each secret and host, with the first rule that needs it."""
    hosts = {one.name: one.hosts for one in bound}
    missing = {
        (secret, pattern): origin
        for secret, pattern, origin in _asked(policy)
        if not any(map(pattern.matches, hosts.get(secret, ())))
    }
    key = policy.settings.sign_commits
    signing = [Wanted(secret=key, host=OWN_HOST, origin=SETTING, hosts=(OWN_HOST,), how=SET_UP_SIGNING)]
    return (signing if key and OWN_HOST not in hosts.get(key, ()) else []) + [
        Wanted(secret=secret, host=str(pattern), origin=origin, hosts=_together(secret, pattern, missing, hosts))
        for (secret, pattern), origin in sorted(missing.items(), key=lambda row: (row[0][0], _place(row[1])))
    ]


def kinds_of(policy: Policy) -> Mapping[str, tuple[str, ...]]:
    """Return what the policy uses each secret for: the kinds of credentials, sorted."""
    injections = (rule.conditions.inject for rule in policy.rules.rules if rule.conditions.inject)
    found: dict[str, set[str]] = {}
    for credential in (one for injection in injections for one in injection.credentials):
        found.setdefault(credential.secret, set()).add(credential.kind)
    if policy.settings.sign_commits:
        found.setdefault(policy.settings.sign_commits, set()).add(SIGNS)
    return {name: tuple(sorted(kinds)) for name, kinds in found.items()}


def unheard(policy: Policy, bound: Bound) -> Iterator[str]:
    """Yield the hosts of a bound secret for which no rule injects it, as text."""
    asked = list(_asked(policy))
    wanting = sorted({str(pattern) for secret, pattern, _ in asked if secret == bound.name})
    if not wanting:
        names = ", ".join(sorted({secret for secret, _, _ in asked}))
        others = f"; they inject {names}" if names else ""
        yield f"no rule of the policy injects {bound.name} yet{others} (docs/secrets.md)"
        return
    for host in bound.hosts:
        if not any(pattern.matches(host) for secret, pattern, _ in asked if secret == bound.name):
            yield f"the policy injects {bound.name} for {', '.join(wanting)}, but not for {host}"


def _asked(policy: Policy) -> Iterator[tuple[str, HostPattern, Origin]]:
    """Yield each injected secret with its host and origin, in reverse order, so that the first rule wins in a dict."""
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
