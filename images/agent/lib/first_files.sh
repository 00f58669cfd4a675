# shellcheck shell=bash
# An agent manifest's `unattended.files` answer the questions that the agent asks at its first start. Each is copied into ~
# unless the file exists, so the user's own files and the agent's changes are kept.

agents=${AGENT_SANDBOX_AGENTS:-/usr/local/lib/agent-sandbox/agents}

copy_first_files() {
  local folder path failed=0
  for folder in "$agents"/*/home; do
    [[ -d $folder ]] || continue
    while IFS= read -r -d '' path; do
      [[ ! -e $HOME/$path && ! -L $HOME/$path ]] || continue
      { mkdir -p -- "$(dirname -- "$HOME/$path")" && cp --no-preserve=mode -- "$folder/$path" "$HOME/$path"; } || failed=1
    done < <(find "$folder" -type f -printf '%P\0')
  done
  return "$failed"
}
