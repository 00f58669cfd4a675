"""The control socket, which only processes in the proxy's own container reach, and the health check that uses it."""
