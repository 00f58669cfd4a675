"""Words of the policy language that this version does not build yet: refused by name, never ignored."""

PLANNED: frozenset[tuple[str, str]] = frozenset(
    (where, key)
    for where, keys in {
        "": ("secrets", "transform"),
        "domains": ("transform",),
        "deny": ("transform",),
        "rules": ("transform",),
    }.items()
    for key in keys
)
