# The sandbox's part of an interactive zsh. /etc/zsh/zshenv sources it, before any file of the user's own: these files go
# further and may override it, but no `setopt no_global_rcs` of theirs can leave it out.
HISTFILE=~/.history/zsh
HISTSIZE=50000
SAVEHIST=50000
PS1='%n@%m:%~%# '

for agent_sandbox_file in ~/.config/agent-sandbox/shell.d/*.sh(N); do
  source "$agent_sandbox_file"
done
unset agent_sandbox_file

# `docker compose exec` asks nobody whether the walls of the workspace still stand; whoever comes in should know.
() {
  local lost=$(/usr/local/lib/agent-sandbox/healthy)
  [[ -z $lost ]] || print -u2 "agent-sandbox: replaced on the host machine, so the agent can write it now: ${lost//$'\n'/, }; run agent-sandbox up there"
}
