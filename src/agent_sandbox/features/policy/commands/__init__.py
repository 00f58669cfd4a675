"""One file per command: it parses arguments, calls the steps and prints."""
