"""Our subclasses and patches of mitmproxy's protocol layers, and the mapping between its flows and our exchanges."""
