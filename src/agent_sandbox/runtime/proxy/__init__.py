"""Talk to a running proxy and read its log."""
