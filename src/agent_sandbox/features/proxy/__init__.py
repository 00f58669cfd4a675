"""Talk to the running proxy and read its log, or run one on this machine."""
