# shellcheck shell=bash
# Cargo's downloads go to ~/.cache, which outlives the container. What is there already stays.

link_caches() {
  local name
  for name in registry git; do
    [[ ! -e $HOME/.cargo/$name && ! -L $HOME/.cargo/$name ]] || continue
    if ! { mkdir -p -- "$HOME/.cargo" "$HOME/.cache/cargo/$name" && ln -s -- "$HOME/.cache/cargo/$name" "$HOME/.cargo/$name"; }; then
      say "$HOME/.cargo/$name is not kept: it cannot be linked to ~/.cache"
    fi
  done
}
