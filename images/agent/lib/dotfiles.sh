# shellcheck shell=bash
# Each file of ~/.dotfiles becomes a link at the same place in ~. Existing files are not replaced or hidden.
# The agent's own settings are copied, because the agent writes to them.

dotfiles=$HOME/.dotfiles
IFS=: read -r -a states <<<"${AGENT_SANDBOX_STATE:-}"
# Volumes for the user's and the agent's files.
volumes=("$HOME/.cache" "$HOME/.local" "${states[@]}")

dotfile_paths() { # NUL-terminated, relative to ~/.dotfiles; links are linked to, not followed
  [[ ! -d $dotfiles ]] || find "$dotfiles" -mindepth 1 -name .git -prune -o \( -type f -o -type l \) -printf '%P\0'
}

is_volume() { # argument: path
  local volume
  for volume in "${volumes[@]}"; do
    [[ $1 != "$volume" ]] || return 0
  done
  return 1
}

mounts_below_home() { # NUL-terminated; without the volumes: files in them may come from dotfiles
  local path
  while read -r _ _ _ _ path _; do
    path=$(printf '%b' "$path") # mountinfo writes a space as \040
    [[ $path != "$HOME"/* ]] || is_volume "$path" || printf '%s\0' "$path"
  done <"${AGENT_SANDBOX_MOUNTINFO:-/proc/self/mountinfo}"
}

is_protected() { # argument: path in ~
  local protected
  for protected in "$HOME/.config/agent-sandbox" "${mounts[@]}"; do
    [[ $1/ != "$protected"/* ]] || return 0
  done
  return 1
}

is_ours() { # argument: path; a link that an earlier start made
  [[ -L $1 && $(readlink -- "$1") == "$dotfiles"/* ]]
}

is_setting() { # argument: path in ~; a file that the agent writes itself
  local state
  for state in "${states[@]}"; do
    [[ $1 != "$state"/* || ! $1 =~ \.(json|toml|ya?ml)$ ]] || return 0
  done
  return 1
}

copy_setting() { # arguments: path relative to ~/.dotfiles, target; once, since the agent's copy has its changes
  is_ours "$2" || [[ ! -e $2 && ! -L $2 ]] || return 0
  rm -f -- "$2"
  if ! { mkdir -p -- "$(dirname -- "$2")" && cp -L --no-preserve=mode -- "$dotfiles/$1" "$2"; }; then
    say "$dotfiles/$1 is not copied: $2 cannot be written"
  fi
}

link_dotfile() { # argument: path relative to ~/.dotfiles
  local target=$HOME/$1
  if is_setting "$target"; then
    copy_setting "$1" "$target"
  elif is_protected "$target"; then
    say "$dotfiles/$1 is not linked: the sandbox manages that path"
  elif { [[ -e $target || -L $target ]] && ! is_ours "$target"; } || ! mkdir -p -- "$(dirname -- "$target")"; then
    say "$dotfiles/$1 is not linked: the path already exists; move it away and restart the agent"
  else
    ln -sfn -- "$dotfiles/$1" "$target"
  fi
}

link_dotfiles() {
  local path mounts paths
  mapfile -d '' -t mounts < <(mounts_below_home)
  mapfile -d '' -t paths < <(dotfile_paths)
  for path in "${paths[@]}"; do
    link_dotfile "$path"
  done
}

link_settings() { # the user's own settings of the agents, as if they were dotfiles
  local dotfiles=$HOME/.config/agent-sandbox/settings
  remove_stale_dotfiles
  link_dotfiles
}

remove_stale_dotfiles() { # links of an earlier start whose file is gone from ~/.dotfiles
  local link source volume folders=("$HOME")
  for volume in "${volumes[@]}"; do
    [[ ! -d $volume ]] || folders+=("$volume")
  done
  while IFS= read -r -d '' link; do
    source=$(readlink -- "$link") || continue # found twice: a volume can be on the same file system
    [[ -f $source || -L $source ]] || rm -f -- "$link"
  done < <(find "${folders[@]}" -xdev -path "$dotfiles" -prune -o -type l -lname "$dotfiles/*" -print0)
}
