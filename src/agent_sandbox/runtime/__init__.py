"""All side effects on the host machine: files, the engine, processes, state."""
