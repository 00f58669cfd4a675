# shellcheck shell=bash
# The ready file, in the firewall's container and in the agent's: the last thing that a start makes, the first that the next
# start removes. The engine's health checks look for it.

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
