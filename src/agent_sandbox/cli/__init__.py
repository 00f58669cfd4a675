"""The command line: one file per command, which parses arguments, calls `runtime` and prints."""
