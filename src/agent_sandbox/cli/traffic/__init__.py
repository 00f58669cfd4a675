"""`agent-sandbox traffic`: questions about the audit log."""
