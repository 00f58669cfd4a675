"""What is legal in a policy and yet a risk, or without effect. One table of checks: `checks.CHECKS`."""
