"""From parsed files to an effective policy: expand services, check for conflicts, compile, encode for the cache."""
