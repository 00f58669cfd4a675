"""From YAML nodes to a validated policy or service file, with every problem at its line."""
