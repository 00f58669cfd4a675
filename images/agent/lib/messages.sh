# shellcheck shell=bash
# Messages on stderr: what is wrong and how to fix it.

readonly explained=78 # exit status after a printed explanation (EX_CONFIG)

say() {
  printf 'agent-sandbox: %s\n' "$*" >&2
}

die() { # arguments: what is wrong, how to fix it
  say "$1; $2"
  exit "$explained"
}

die_of_surprise() { # for `trap ... ERR`; arguments: exit status, program, line, command
  (($1 != explained)) || exit "$explained"
  die "$2 stopped at line $3: $4 (status $1)" "the container does not start; please report this with the output of agent-sandbox logs --raw"
}
