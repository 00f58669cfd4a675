"""Control the running proxy, or run one on this machine."""
