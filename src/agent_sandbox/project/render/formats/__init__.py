"""Text formats: YAML and JSON with comments, headers of our files, templates, and files that others wrote."""
