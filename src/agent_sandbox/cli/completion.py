"""`agent-sandbox completion SHELL`."""

from enum import StrEnum
from typing import Annotated

from typer import Argument

from agent_sandbox.cli.terminal.output import emit


class Shell(StrEnum):
    """The supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, Argument(help="The shell: bash, zsh or fish.")]) -> None:
    """Print the completion script for a shell.

    bash: eval "$(agent-sandbox completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc, after compinit;
    fish: agent-sandbox completion fish > ~/.config/fish/completions/agent-sandbox.fish
    """
    emit(SCRIPTS[shell])


# Each runs `agent-sandbox __complete WORD... CURRENT`, which prints one `name<TAB>help` per line.
SCRIPTS = {
    Shell.BASH: r"""_agent_sandbox() {
  local name _
  COMPREPLY=()
  while IFS=$'\t' read -r name _; do
    COMPREPLY+=("$name")
  done < <(agent-sandbox __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _agent_sandbox agent-sandbox""",
    Shell.ZSH: r"""_agent_sandbox() {
  local name help
  local -a found
  while IFS=$'\t' read -r name help; do
    found+=("${name//:/\\:}:$help")
  done < <(agent-sandbox __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
  if (( ! $#found )); then _files
  elif [[ $words[CURRENT] == -* ]]; then _describe -o option found
  else _describe command found; fi
}
compdef _agent_sandbox agent-sandbox""",
    Shell.FISH: r"""function __agent_sandbox_complete
    set -l words (commandline -opc)
    set -l found (agent-sandbox __complete $words[2..-1] (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c agent-sandbox -f -a '(__agent_sandbox_complete)'""",
}


def completions(*before: str) -> tuple[str, ...]:
    """Return the supported shells, for shell completion."""
    return () if before else tuple(shell.value for shell in Shell)
