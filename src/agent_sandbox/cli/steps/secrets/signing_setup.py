"""Have the proxy sign the commits that are made in the sandbox, with an SSH key that only the proxy has."""

from pathlib import Path

from agent_sandbox.backends.project import Project
from agent_sandbox.cli.steps.policy.policy_edit import put_values
from agent_sandbox.cli.steps.policy.policy_file import shown
from agent_sandbox.cli.steps.secrets.secret_sources import fetched, store, take_effect
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.policy.http.host import OWN_HOST
from agent_sandbox.policytools.unset_secrets import Bound
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.git.ask import ask_git
from agent_sandbox.runtime.sources.recipes import Recipe
from agent_sandbox.runtime.sources.ssh_key import MAKE_ONE

SERVICE, SECRET, SOURCE = "signing", "git.signing-key", "ssh-key:"


def set_up_signing(project: Project, source: str, ttl: str, *, path: Path | None) -> None:
    """Store the key, or where to fetch it, and switch on `sign_commits`."""
    # Bound to the proxy's own name, the key is sent to no server.
    bound, source = Bound(name=SECRET, hosts=(OWN_HOST,)), source or _usual_source(project)
    email = fetched(project, Recipe(name=SECRET, hosts=bound.hosts, source=source)).value.decode().partition(" ")[0]
    is_there = store(project, bound, source, ttl)
    policy = shown(project.policy, cwd=Path.cwd())
    put_values({"settings": {"sign_commits": SECRET}}, f"`sign_commits: {SECRET}`", policy)
    take_effect(project, SECRET, path, is_stored=is_there, how="names it")
    say(f"git in the sandbox signs commits of {email}; the key stays in the proxy, which signs nothing else")


def _usual_source(project: Project) -> str:
    """Return the source for the key with which git on the host machine signs, or raise UserError."""
    try:
        said = ask_git("config", "--includes", "--type=path", "user.signingKey", cwd=project.root)
    except OSError:
        file = ""
    else:
        file = said.out.strip().removesuffix(".pub")
    if not Path(file).is_absolute():  # a key by its id, or as a text
        what, hint = "git on this machine has no SSH key file in `user.signingKey`", f"--from {SOURCE}FILE"
        raise UserError([Problem(where=SERVICE, what=what, hint=f"{MAKE_ONE}, then name it with {hint}")])
    return f"{SOURCE}{file}"
