"""Decide a request: rules, their index, restricting layers, the decision itself. Pure and total."""
