"""All side effects on the host machine: files, the Docker engine, processes, state."""
