# shellcheck shell=bash
# The placeholders of secrets: variables that the proxy writes, in the volume that it shares with all containers.

placeholders=${AGENT_SANDBOX_PLACEHOLDERS:-/usr/local/share/agent-sandbox/ca/placeholders.sh}

export_placeholders() { # a variable that is set already is kept
  # shellcheck source=/dev/null
  [[ ! -r $placeholders ]] || source "$placeholders"
}
