"""Which TLS connections pass through without inspection: only those for which no rule looks inside."""

from collections.abc import Sequence

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.rule import Rule

Rules = Sequence[Rule]


def passes_through(rules: Rules, restrictions: Sequence[Rules], *, port: int, inspect: bool) -> bool:
    """Return whether TLS to this port passes through without inspection.

    `rules` are the rules of the host, `restrictions` those of each restricting layer. `inspect` is the default for
    entries that do not set it. `inspect: true` wins over `false`, and so does every deny and every allow with
    conditions: they need the requests inside.
    """
    here = [rule for rule in rules if rule.conditions.takes_port(port)]
    values = {rule.conditions.inspect for rule in here}
    wanted = False in values or (not inspect and None in values)
    whole = all(rule.effect is Effect.ALLOW and rule.conditions.of_any_request for rule in here)
    return wanted and True not in values and whole and all(_lets_pass_through(above, port) for above in restrictions)


def _lets_pass_through(restriction: Rules, port: int) -> bool:
    here = [rule.conditions for rule in restriction if rule.conditions.takes_port(port)]
    return any(asked.of_any_request for asked in here) and not any(asked.inspect for asked in here)
