# shellcheck shell=bash
# The project's directory: dev must be able to write to it, and its protected paths must be mounted.
# AGENT_SANDBOX_PROTECTED has a line for each protected path: `read` or `pinned`, and the path: in the workspace, or an absolute
# one in the repository of a worktree.

workspace=${AGENT_SANDBOX_WORKSPACE:-/workspace}

check_workspace() { # only a warning: reading still works
  [[ -w $workspace ]] ||
    say "$workspace belongs to user $(stat -c %u "$workspace") but the agent is user $(id -u), so it cannot write there;" \
      "run agent-sandbox init again, then agent-sandbox up"
}

mounted_paths() { # sets the array `mounted`: from a path, as AGENT_SANDBOX_PROTECTED has it, to ro or rw
  local place options
  while read -r _ _ _ _ place options _; do
    place=${place//'\040'/ } # mountinfo escapes spaces and backslashes
    place=${place//'\134'/\\}
    mounted[${place#"$workspace"/}]=${options%%,*}
  done <"${AGENT_SANDBOX_MOUNTINFO:-/proc/self/mountinfo}"
}

# A mount is lost when a program on the host machine replaces the mounted file, as git and editors do. Docker follows symbolic
# links: if such a path is a link, something else was mounted.
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
    "check it on the host machine and remove it; then run agent-sandbox init and agent-sandbox up"
}
