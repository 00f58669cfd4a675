"""`agent-sandbox proxy ...`: control the running proxy, or run one on this machine."""
