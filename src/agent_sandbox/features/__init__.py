"""One room per feature: its commands, its steps and its work.

A room imports of another one only the modules that `OPEN` names: a test compares the table with the imports.
"""

OPEN: dict[str, tuple[str, ...]] = {
    "clones": ("clone_policy", "clones", "fetch", "fetched", "forget_project", "running_clones", "throw_away_clone"),
    "copying": ("transfer", "tree"),
    "doctor": ("missing_parts", "table"),
    "policy": ("edit", "file", "layer_rule", "resolve_services"),
    "ports": ("forward", "kept_ports", "live_ports", "reported"),
    "protect": ("accept_harmless", "unprotected_writes"),
    "proxy": ("commands.logs", "reload_policy"),
    "review": ("changes", "unreviewed"),
    "secrets": ("secret_keeper", "secret_sources", "sources.all_recipes", "sources.fetch", "sources.recipes"),
    "session": ("on_terminal.session",),
    "stack": ("diagnose", "execute", "refusals", "start_stack", "update_stack", "write_stack"),
    "traffic": ("audit_log", "decision_line", "record", "totals", "wanted"),
    "trust": ("auto_trust", "prompt", "trust_gate", "trusted_edit"),
    "usage": ("state_sizes",),
    "watch": ("watching.asking_run", "watching.connection", "webhook_file", "webhook_outcome"),
}
