"""Words of the policy language that this version does not build yet: refused by name, never ignored."""

PLANNED = frozenset({("", "secrets")})
