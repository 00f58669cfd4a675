"""Connect to a server: resolve, check and pin its address, or open a tunnel through an upstream proxy."""
