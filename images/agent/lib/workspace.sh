# shellcheck shell=bash
# The project's directory: dev has to be able to write it, and what of it is protected has to be in its place.

workspace=${AGENT_SANDBOX_WORKSPACE:-/workspace}

check_workspace() { # no failure: reading is of use too
  [[ -w $workspace ]] ||
    say "$workspace belongs to user $(stat -c %u "$workspace") and the agent is user $(id -u): it cannot write there;" \
      "run agent-sandbox init again, then docker compose up -d"
}

is_mount_point() { # argument: path
  local mounted
  while read -r _ _ _ _ mounted _; do
    [[ $mounted != "$1" ]] || return 0
  done <"${AGENT_SANDBOX_MOUNTINFO:-/proc/self/mountinfo}"
  return 1
}

check_protected() { # the engine follows links: one that was put in such a place leads it to the host's own files
  local path
  for path in ${AGENT_SANDBOX_PROTECTED:-}; do
    is_mount_point "$workspace/$path" || die "$path is a link, or below one, and no longer the project's own" \
      "look at it on the host, remove it, then agent-sandbox init again and docker compose up -d"
  done
}
