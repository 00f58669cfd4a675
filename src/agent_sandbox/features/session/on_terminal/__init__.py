"""Run a command of the sandbox on the user's terminal: what may pass between the two, and what the user is asked."""
