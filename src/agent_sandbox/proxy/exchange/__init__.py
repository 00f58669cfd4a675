"""One request and its response: what is known of it, its verdict, its denial page, the hooks it passes through."""
