"""The secrets that the proxy injects: where values come from, what they are bound to, sign-ins."""
