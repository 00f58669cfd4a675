"""A decision: whether a request is allowed, by which rule and why."""

import math
from enum import StrEnum
from typing import override

from msgspec import Struct


class Effect(StrEnum):
    """What happens to a request. Without a matching rule it is denied."""

    ALLOW = "allow"
    DENY = "deny"


class Cause(StrEnum):
    """What a decision is based on. The suggestion depends on it."""

    RULE = "rule"  # a rule matched
    CEILING = "ceiling"  # a rule matched, but a restricting layer does not allow the request
    REQUEST = "request"  # the host has rules, but none matches this request
    OPERATION = "operation"  # the nearest rule matches everything except the GraphQL operation
    INJECTION = "injection"  # a rule matched, but its secret could not be injected
    HOST = "host"  # no rule names the host
    ASK = "ask"  # a rule matched, but a person has to allow the request
    BUDGET = "budget"  # a rule matched, but its budget is used up
    EMPTY = "empty"  # the policy allows nothing yet
    POLICY = "policy"  # the policy could not be loaded


class Origin(Struct, frozen=True, kw_only=True):
    """Where a rule was written."""

    file: str
    line: int
    layer: str

    @override
    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Decision(Struct, frozen=True, kw_only=True):
    """The answer to one request.

    `rule` is the rule that decided, as `policy.yaml:12`, or None if no rule matched. `near_miss` says what the nearest
    rule allows, and `wants` what it injects, which another rule for the request would not. `max_body` is the largest
    body in bytes that an allowed request may have; None means no limit.
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
        """Whether the request is allowed."""
        return self.effect is Effect.ALLOW

    @property
    def limit(self) -> float:
        """`max_body` as a number to compare: infinity for no limit."""
        return math.inf if self.max_body is None else self.max_body
