"""Compare policies and rules: what one covers, where two overlap, what a change opens and closes."""
