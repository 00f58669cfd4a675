"""Find entries of a valid policy that are a risk or have no effect. All checks are in `checks.CHECKS`."""
