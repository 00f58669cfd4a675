"""Compare policies and rules: which rules cover others, which overlap, what a change allows and denies."""
