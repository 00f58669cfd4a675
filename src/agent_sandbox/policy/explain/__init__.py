"""Help after a denial: the line that would allow it, the package manager that asked, services that match."""
