"""TLS contexts for both sides, and the proxy's CA."""
