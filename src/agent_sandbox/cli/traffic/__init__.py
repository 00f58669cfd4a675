"""`agent-sandbox traffic`: search and export the audit log."""
