"""Our own HTTP/1.1 path between client and server, over the grammar in `wire`, and the choice between it and mitmproxy.

It maps to the same Exchange as `mitm`, and decides nothing itself. HTTP/2 is left to mitmproxy. Nothing outside of this
package and `mitm` knows which of the two serves a connection.
"""
