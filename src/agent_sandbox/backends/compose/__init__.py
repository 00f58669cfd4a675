"""The pure part of the Compose backend: from requests to plans of commands."""
