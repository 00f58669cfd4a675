"""What changed in a project that a person or CI would run: kinds of files, what was reviewed, and what differs."""
