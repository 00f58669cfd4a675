"""Errors of the policy engine: an invalid value in a policy file, and an ambiguous request."""


class InvalidValue(Exception):  # noqa: N818 - it describes a value, not a fault of the program
    """A value in a policy file is invalid. `what` says why, `hint` how to write it."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint


class Ambiguous(ValueError):  # noqa: N818 - POLICY.md's own word, and every use reads `raise Ambiguous(...)`
    """Two programs could read a request differently. `str()` says what is ambiguous."""
