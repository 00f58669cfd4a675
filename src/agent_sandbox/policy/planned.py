"""Words of the policy language that this version does not build yet: refused by name, never ignored."""

PLANNED: frozenset[tuple[str, str]] = frozenset(
    (where, key)
    for where, keys in {
        "": ("host_services", "secrets", "tests", "tighten", "allow_all", "domains_file", "transform"),
        "services": ("repos", "git", "api", "readonly", "merge_mode"),
        "domains": ("inspect", "merge_mode", "transform"),
        "deny": ("inspect", "merge_mode", "transform"),
        "rules": ("headers", "max_body", "transform"),
        "settings": ("inspect", "reload"),
    }.items()
    for key in keys
)
