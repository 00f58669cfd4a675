"""`agent-sandbox secret ...`: what the proxy puts into requests."""
