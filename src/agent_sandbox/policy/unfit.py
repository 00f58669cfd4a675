"""A value of the policy file that makes no sense; the door adds where it stands."""


class Unfit(Exception):  # noqa: N818 - a word of ours: the value does not fit, the program has no error
    """What is wrong with a value, and how to write it."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint
