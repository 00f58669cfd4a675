# shellcheck shell=bash
# The project's directory: dev has to be able to write it, and what of it is protected has to be in its place.
# AGENT_SANDBOX_PROTECTED has a line for each protected path: `read` or `pinned`, and the path.

workspace=${AGENT_SANDBOX_WORKSPACE:-/workspace}

check_workspace() { # no failure: reading is of use too
  [[ -w $workspace ]] ||
    say "$workspace belongs to user $(stat -c %u "$workspace") but the agent is user $(id -u), so it cannot write there;" \
      "run agent-sandbox init again, then docker compose up -d"
}

mounted_paths() { # into the array `mounted`: by path relative to the workspace, how it is mounted: ro or rw
  local place options
  while read -r _ _ _ _ place options _; do
    place=${place//'\040'/ } # as mountinfo writes a space, and a backslash
    place=${place//'\134'/\\}
    mounted[${place#"$workspace"/}]=${options%%,*}
  done < <(grep -F " $workspace/" "${AGENT_SANDBOX_MOUNTINFO:-/proc/self/mountinfo}")
}

# A mount ends when the host puts another file in the place of the one that was mounted, as git and editors do. And the
# engine follows links: one that was put in such a place has led it elsewhere.
lost_walls() { # the protected paths that are not mounted as they should be, one a line
  local line access path
  declare -A mounted=()
  mounted_paths
  while IFS= read -r line; do # as a whole: a path may end in a space
    access=${line%% *} path=${line#* }
    case $access:${mounted[${path:-.}]-} in
      read:ro | pinned:r? | :*) ;;
      *) printf '%s\n' "$path" ;;
    esac
  done <<<"${AGENT_SANDBOX_PROTECTED:-}"
}

check_protected() {
  local path
  path=$(lost_walls | head -n 1)
  [[ -z $path ]] || die "$path is a symbolic link, or below one, so its mount protects something else" \
    "check it on the host machine and remove it; then run agent-sandbox init and docker compose up -d"
}
