"""The effective policy: what all layers together say, ready to be asked."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.dump import dump_conditions
from agent_sandbox.policy.index import HostIndex, build_index
from agent_sandbox.policy.rule import Rule
from agent_sandbox.policy.ruleset import RuleSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Immutable and compiled; `decide` asks it.

    `refusal` is set when the policy as a whole can allow nothing, and says why.
    """

    rules: RuleSet
    index: HostIndex = field(repr=False)
    digest: str
    refusal: str = ""

    @classmethod
    def of(cls, rules: RuleSet, *, refusal: str = "") -> Self:
        """Compile a set of rules."""
        return cls(rules=rules, index=build_index(rules.rules), digest=_digest(rules), refusal=refusal)

    @classmethod
    def deny_all(cls, reason: str) -> Self:
        """Return the policy that answers everything with a denial for this reason."""
        return cls.of(RuleSet(), refusal=reason)

    @property
    def block_status(self) -> int:
        """The HTTP status of a denial."""
        return self.rules.block_status or 403

    def takes_encoded_slash(self, host: str) -> bool:
        """Tell whether `%2F` may stand in paths of this host, as an entry with `encoded_slash: true` says."""
        rules = self.index.rules_for(host)
        return any(rule.conditions.encoded_slash for rule in rules if rule.effect is Effect.ALLOW)

    def passthrough(self, host: str, port: int) -> bool:  # noqa: ARG002 - the seat of `inspect: false`
        """Tell whether TLS to this host goes through unopened. None does yet."""
        return False


def _digest(rules: RuleSet) -> str:
    """Hash what the policy does, not how it is written: comments, order and lines do not count."""
    ceilings = sorted({f"ceiling {_hashed(_lines(ceiling.rules))}" for ceiling in rules.ceilings})
    return _hashed([f"block_status {rules.block_status or 403}", *ceilings, *_lines(rules.rules)])


def _lines(rules: Iterable[Rule]) -> list[str]:
    return sorted({json.dumps([rule.effect, dump_conditions(rule.conditions)], sort_keys=True) for rule in rules})


def _hashed(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
