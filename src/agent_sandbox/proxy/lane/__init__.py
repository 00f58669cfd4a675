"""Our own HTTP/1.1 server, over the grammar in `wire`, and the choice between it and mitmproxy.

It uses the same Exchange as `mitm`, and decides nothing itself. mitmproxy serves clients that offer HTTP/2. Code
outside this package and `mitm` does not know which of the two serves a connection.
"""
