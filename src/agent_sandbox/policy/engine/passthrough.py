"""Which TLS goes through unopened: only where nothing that stands inside is asked for."""

from collections.abc import Sequence

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.rule import Rule

Rules = Sequence[Rule]


def goes_unopened(rules: Rules, ceilings: Sequence[Rules], *, port: int, inspect: bool) -> bool:
    """Tell whether a connection to this port may, `rules` being those of its host and `ceilings` those of each ceiling.

    `inspect` counts for entries that do not say. One that says `true` stands over one that says `false`, and so does
    every deny and every narrower allow: they have to be held against what is inside.
    """
    here = [rule for rule in rules if rule.conditions.takes_port(port)]
    said = {rule.conditions.inspect for rule in here}
    wanted = False in said or (not inspect and None in said)
    whole = all(rule.effect is Effect.ALLOW and rule.conditions.of_any_request for rule in here)
    return wanted and True not in said and whole and all(_leaves_unopened(above, port) for above in ceilings)


def _leaves_unopened(ceiling: Rules, port: int) -> bool:
    here = [rule.conditions for rule in ceiling if rule.conditions.takes_port(port)]
    return any(asked.of_any_request for asked in here) and not any(asked.inspect for asked in here)
