"""Act on the engine through docker and compose: carry out a plan, read state, build images, explain faults."""
