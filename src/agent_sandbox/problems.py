"""Problems that a user can fix: where it is, what is wrong, what to do.

Every failure that a user can cause is a `UserError` with all its problems. Only commands print them.
"""

from collections.abc import Iterable
from typing import override

from msgspec import Struct


class Problem(Struct, frozen=True, kw_only=True):
    """One problem.

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
    """All problems that stop a command, in reading order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
