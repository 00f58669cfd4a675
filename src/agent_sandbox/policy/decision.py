"""What the engine answers: a value that says yes or no, and why."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import override


class Effect(StrEnum):
    """What happens to a request. Nothing is allowed unless a rule says so."""

    ALLOW = "allow"
    DENY = "deny"


class Cause(StrEnum):
    """What the decision rests on; advice differs with it."""

    RULE = "rule"  # a rule matched
    CEILING = "ceiling"  # a rule matched, but a layer that only narrows does not take the request
    REQUEST = "request"  # the host has rules, none of them takes this request
    OPERATION = "operation"  # the nearest rule takes all of it but what its body asks for
    INJECTION = "injection"  # a rule matched, and what it has put in could not be
    HOST = "host"  # no rule names the host
    EMPTY = "empty"  # the policy allows nothing yet
    POLICY = "policy"  # the policy could not be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a rule was written."""

    file: str
    line: int
    layer: str

    @override
    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer to one request.

    `rule` is the rule that decided, as `policy.yaml:12`, or None when no rule matched. `near_miss` tells what the
    nearest rule of the host allows, and `wants` what it puts in: a line beside it would go without. `max_body` is the
    largest body, in bytes, that may follow what was allowed; None is no limit.
    """

    effect: Effect
    rule: str | None
    origin: Origin | None
    reason: str
    near_miss: str = ""
    wants: str = ""
    cause: Cause = Cause.RULE
    max_body: int | None = None

    @property
    def allowed(self) -> bool:
        """Whether the request may go on."""
        return self.effect is Effect.ALLOW

    @property
    def limit(self) -> float:
        """`max_body` to compare with: no limit is infinite."""
        return math.inf if self.max_body is None else self.max_body
