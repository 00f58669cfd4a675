"""The one word for doubt: what cannot be read in exactly one way is never allowed."""


class Ambiguous(ValueError):  # noqa: N818 - POLICY.md's own word, and every use reads `raise Ambiguous(...)`
    """A request that two readers could take for two different ones; `str()` says what was doubtful."""
