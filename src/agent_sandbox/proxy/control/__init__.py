"""The control socket, which only processes in the proxy container reach, and the health check that uses it."""
