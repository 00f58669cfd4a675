"""Drive the Docker engine: execute plans, read state, build images, explain errors."""
