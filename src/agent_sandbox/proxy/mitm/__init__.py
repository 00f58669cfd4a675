"""Our subclasses and patches of mitmproxy's protocol layers."""
