"""The result of a check."""

from enum import StrEnum

from msgspec import Struct


class Status(StrEnum):
    """The severity; FAIL means that the stack does not work or does not protect."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class CheckResult(Struct, frozen=True, kw_only=True):
    """One line of the doctor: the check's name, status, finding and hint."""

    name: str
    status: Status
    what: str
    hint: str = ""


def ok(name: str, what: str) -> CheckResult:
    """Return a result with status OK."""
    return CheckResult(name=name, status=Status.OK, what=what)


def warn(name: str, what: str, hint: str = "") -> CheckResult:
    """Return a result with status WARN."""
    return CheckResult(name=name, status=Status.WARN, what=what, hint=hint)


def fail(name: str, what: str, hint: str = "") -> CheckResult:
    """Return a result with status FAIL."""
    return CheckResult(name=name, status=Status.FAIL, what=what, hint=hint)
