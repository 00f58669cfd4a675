"""`agent-sandbox watch`: the connection to the proxy, and what shows it."""
