# shellcheck shell=bash
# The commands that `enter` runs, for signals from the host machine: one file for each, named by its process. It contains the
# name that agent-sandbox gave the session. The agent can write here, but can only misdirect signals to its own processes.

sessions=/tmp/agent-sandbox.sessions

record_session() {
  [[ -n ${AGENT_SANDBOX_SESSION-} ]] || return 0
  local session=$AGENT_SANDBOX_SESSION file
  unset AGENT_SANDBOX_SESSION
  mkdir -p -- "$sessions" 2>/dev/null || return 0 # never a reason not to run a command
  for file in "$sessions"/*; do
    [[ -d /proc/${file##*/} ]] || rm -f -- "$file"
  done
  { printf '%s\n' "$session" >"$sessions/$$"; } 2>/dev/null || true
}

# Send a signal to the process group of a session's command. One that was just started may not be recorded yet.
signal_session() { # SIGNAL SESSION
  local file
  for _ in {1..20}; do
    for file in "$sessions"/*; do
      if [[ -f $file && $(<"$file") == "$2" ]]; then
        kill -s "$1" -- "-${file##*/}"
        return
      fi
    done
    sleep 0.1
  done
  return 1
}
