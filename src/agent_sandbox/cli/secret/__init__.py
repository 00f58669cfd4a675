"""`agent-sandbox secret ...`: the secrets that the proxy injects."""
