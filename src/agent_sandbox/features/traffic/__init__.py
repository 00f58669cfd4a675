"""What the proxy allowed and denied: search the audit log, follow it, export it."""
