"""The driver's checks for `agent-sandbox doctor`: the command, the engine, its disk, users and networks."""
