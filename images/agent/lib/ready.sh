# shellcheck shell=bash
# The ready file: the last thing that a start makes, the first thing that the next start removes.

forget_ready() { # argument: the file
  rm -f -- "$1"
}

mark_ready() { # argument: the file
  : >"$1"
}
