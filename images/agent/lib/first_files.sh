# shellcheck shell=bash
# The agent manifest's `unattended.files` answer the questions that the agent asks at its first start. Each is copied into ~
# unless the file exists, so the user's own files and the agent's changes are kept.

first_files=${AGENT_SANDBOX_FIRST_FILES:-/usr/local/lib/agent-sandbox/agent/home}

copy_first_files() {
  local path failed=0
  [[ -d $first_files ]] || return 0
  while IFS= read -r -d '' path; do
    [[ ! -e $HOME/$path && ! -L $HOME/$path ]] || continue
    { mkdir -p -- "$(dirname -- "$HOME/$path")" && cp --no-preserve=mode -- "$first_files/$path" "$HOME/$path"; } || failed=1
  done < <(find "$first_files" -type f -printf '%P\0')
  return "$failed"
}
