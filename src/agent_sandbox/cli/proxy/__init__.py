"""`agent-sandbox proxy ...`: the running proxy, and the same program on this machine."""
