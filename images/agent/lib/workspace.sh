# shellcheck shell=bash
# The project's directory: dev has to be able to write it.

workspace=${AGENT_SANDBOX_WORKSPACE:-/workspace}

check_workspace() { # no failure: reading is of use too
  [[ -w $workspace ]] ||
    say "$workspace belongs to user $(stat -c %u "$workspace") and the agent is user $(id -u): it cannot write there;" \
      "run agent-sandbox init again, then docker compose up -d"
}
