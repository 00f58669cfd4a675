"""What a check found."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How bad it is: with a failure the stack does not work or does not protect."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """One line of the doctor's: what was looked at, how it is, what was seen, what to do."""

    name: str
    status: Status
    what: str
    hint: str = ""


def ok(name: str, what: str) -> CheckResult:
    """Return that all is well."""
    return CheckResult(name=name, status=Status.OK, what=what)


def warn(name: str, what: str, hint: str = "") -> CheckResult:
    """Return that something should be known."""
    return CheckResult(name=name, status=Status.WARN, what=what, hint=hint)


def fail(name: str, what: str, hint: str = "") -> CheckResult:
    """Return that something has to be mended."""
    return CheckResult(name=name, status=Status.FAIL, what=what, hint=hint)
