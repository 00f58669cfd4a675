# shellcheck shell=bash
# The ready file, in the firewall and agent containers: created at the end of each start, removed at the beginning of the next.
# Docker's health checks look for it.

readonly ready_file=/tmp/agent-sandbox.ready

forget_ready() {
  rm -f -- "$ready_file"
}

mark_ready() {
  : >"$ready_file"
}

is_ready() {
  [[ -e $ready_file ]]
}

step_down_and_wait() { # as user nobody; keeps the network namespace alive
  exec setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --no-new-privs \
    bash -c 'trap "exit 0" TERM INT; sleep infinity & wait'
}
