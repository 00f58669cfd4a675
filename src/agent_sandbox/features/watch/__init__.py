"""Show requests live and answer those that wait, in the terminal (`watch`), beside a run and in a browser (`ui`)."""
