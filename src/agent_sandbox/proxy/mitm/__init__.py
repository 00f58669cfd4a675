"""Our subclasses and patches of mitmproxy's layers. What extends its protocol handling belongs here."""
