"""What a person can mend: where it is, what is wrong, what to do about it.

Every failure that a user can cause is a `UserError` holding all its problems at once. Only `cli/` prints them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import override


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing to mend.

    >>> print(Problem(where="policy.yaml:3:5", what="unknown key `hots`", hint="did you mean `host`?"))
    policy.yaml:3:5: unknown key `hots`; did you mean `host`?
    """

    where: str
    what: str
    hint: str = ""

    @override
    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}; {self.hint}" if self.hint else text


class UserError(Exception):
    """All the problems that stop a command, in the order in which a person would meet them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
