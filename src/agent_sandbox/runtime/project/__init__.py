"""Which stack a project has, and what its owner has trusted."""
