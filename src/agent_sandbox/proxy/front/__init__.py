"""Accept clients: explicit proxy, CONNECT, transparent proxy, DNS server, TLS passthrough."""
