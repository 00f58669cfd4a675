"""Run the agent, a shell or a command on the user's terminal: what passes between them, and the summary."""
