"""Protected paths: find them, record their content, check their mounts."""
