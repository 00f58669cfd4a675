"""The pure part of the Compose backend: from requests to plans of commands, and from a stack to its file."""
