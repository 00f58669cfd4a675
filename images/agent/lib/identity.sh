# shellcheck shell=bash
# The user's name and e-mail address, as git on the host machine knows them. /etc/gitconfig includes the file, so dotfiles
# and the repository's own settings outweigh it.

identity_file=$HOME/.local/state/agent-sandbox/git-identity

write_identity() {
  rm -rf -- "$identity_file" "$identity_file.lock"
  mkdir -p -- "$(dirname -- "$identity_file")"
  [[ -z ${AGENT_SANDBOX_GIT_NAME-} ]] || git config --file "$identity_file" user.name "$AGENT_SANDBOX_GIT_NAME"
  [[ -z ${AGENT_SANDBOX_GIT_EMAIL-} ]] || git config --file "$identity_file" user.email "$AGENT_SANDBOX_GIT_EMAIL"
}
