"""Accept clients: explicit proxy, transparent listeners, DNS, CONNECT, and TLS that passes through unopened."""
