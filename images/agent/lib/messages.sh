# shellcheck shell=bash
# What a person gets to read: on stderr, what is wrong and how to mend it.

readonly told=78 # the exit status of what has said why already (EX_CONFIG)

say() {
  printf 'agent-sandbox: %s\n' "$*" >&2
}

die() { # arguments: what is wrong, how to mend it
  say "$1; $2"
  exit "$told"
}

die_of_surprise() { # for `trap ... ERR`; arguments: exit status, program, line, command
  (($1 != told)) || exit "$told"
  die "$2 stopped at line $3: $4 (status $1)" "the container does not start; please report this with the output of docker compose logs"
}
