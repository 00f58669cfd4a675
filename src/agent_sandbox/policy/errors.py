"""What the policy engine raises: a value of the policy file that makes no sense, and a request that is ambiguous."""


class Unfit(Exception):  # noqa: N818 - a word of ours: the value does not fit, the program has no error
    """What is wrong with a value, and how to write it."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint


class Ambiguous(ValueError):  # noqa: N818 - POLICY.md's own word, and every use reads `raise Ambiguous(...)`
    """A request that two readers could take for two different ones; `str()` says what was doubtful."""
