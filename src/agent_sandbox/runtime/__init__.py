"""The only side effects on the host: files, the engine, processes, state."""
