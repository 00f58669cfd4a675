"""What one layer says, or several together."""

from dataclasses import dataclass

from agent_sandbox.policy.rule import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """Rules and settings; `lower + higher` is both, and a setting of the higher one stands.

    Adding is associative, and for rules the order never matters: a deny wins wherever it comes from.
    """

    rules: tuple[Rule, ...] = ()
    block_status: int | None = None

    def __add__(self, higher: "RuleSet") -> "RuleSet":
        return RuleSet(
            rules=self.rules + higher.rules,
            block_status=self.block_status if higher.block_status is None else higher.block_status,
        )
