# shellcheck shell=bash
# The commands that `enter` runs, for signals from the host machine: one file for each, named by its process. It contains the
# name that agent-sandbox gave the session. The agent can write here, but can only misdirect signals to its own processes.

sessions=/tmp/agent-sandbox.sessions

# In the background: a pipe, or a million files, that the agent put here must not keep the command from starting.
record_session() {
  [[ -n ${AGENT_SANDBOX_SESSION-} ]] || return 0
  (write_record "$AGENT_SANDBOX_SESSION" </dev/null &>/dev/null &)
  unset AGENT_SANDBOX_SESSION
}

write_record() { # SESSION
  local file dead=()
  mkdir -p -- "$sessions"
  printf '%s\n' "$1" >"$sessions/$$"
  for file in "$sessions"/*; do
    [[ -d /proc/${file##*/} ]] || dead+=("$file")
  done
  rm -f -- "${dead[@]}"
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
