"""Ask git about a repository without running anything that the repository names."""
