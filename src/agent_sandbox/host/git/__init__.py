"""Query git about a repository without running any program that the repository names."""
