"""Print: output and messages, excerpts of files, progress."""
