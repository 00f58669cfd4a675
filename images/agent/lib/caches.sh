# shellcheck shell=bash
# Link Cargo's download directories into ~/.cache, which is a volume. Existing directories are not replaced.

link_caches() {
  local name
  for name in registry git; do
    [[ ! -e $HOME/.cargo/$name && ! -L $HOME/.cargo/$name ]] || continue
    if ! { mkdir -p -- "$HOME/.cargo" "$HOME/.cache/cargo/$name" && ln -s -- "$HOME/.cache/cargo/$name" "$HOME/.cargo/$name"; }; then
      say "cannot link $HOME/.cargo/$name to ~/.cache: Cargo's downloads are lost with the container"
    fi
  done
}
