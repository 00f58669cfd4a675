"""The command line: the table of commands, what parses them and turns errors into exit codes, and output."""
