# The sandbox's settings for interactive zsh. /etc/zsh/zshenv sources this file before the user's own files. They can override
# these settings, but no `setopt no_global_rcs` in them can skip this file.
HISTFILE=~/.history/zsh
HISTSIZE=50000
SAVEHIST=50000
PS1='%n@%m:%~%# '

for agent_sandbox_file in ~/.config/agent-sandbox/shell.d/*.sh(N); do
  source "$agent_sandbox_file"
done
unset agent_sandbox_file

# `docker compose exec` does not check for lost mounts, so each interactive shell does.
() {
  local lost=$(/usr/local/lib/agent-sandbox/healthy)
  [[ -z $lost ]] || print -u2 "agent-sandbox: replaced on the host machine, so the agent can write it now: ${lost//$'\n'/, }; run agent-sandbox up there"
}
