"""Errors of the policy engine: an invalid value in a policy file, and an ambiguous request."""


class Unfit(Exception):  # noqa: N818 - a word of ours: the value does not fit, the program has no error
    """A value in a policy file is invalid. `what` says why, `hint` how to write it."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint


class Ambiguous(ValueError):  # noqa: N818 - POLICY.md's own word, and every use reads `raise Ambiguous(...)`
    """Two programs could read a request differently. `str()` says what is ambiguous."""
