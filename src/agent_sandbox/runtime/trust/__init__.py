"""Whether the user has looked at what a project asks for. A project's settings can narrow; what widens needs a yes."""
