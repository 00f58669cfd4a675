# shellcheck shell=bash
# The ready file: the last thing that a start makes, the first thing that the next start removes.

ready_file=${AGENT_SANDBOX_READY:-/tmp/agent-sandbox.ready}

forget_ready() {
  rm -f -- "$ready_file"
}

mark_ready() {
  : >"$ready_file"
}
