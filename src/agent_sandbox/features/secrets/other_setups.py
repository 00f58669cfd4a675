"""Set up what is not a service with a key: APIs of AWS, private packages of npm, and signed commits.

In each case, only the proxy has the secret: it signs requests to AWS, sends npm's token, and signs the commits.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent_sandbox.cli.terminal.output import say
from agent_sandbox.detect import place_of
from agent_sandbox.features.policy.edit import put_values
from agent_sandbox.features.policy.file import shown
from agent_sandbox.features.policy.registries import npm_registry, this_machine
from agent_sandbox.features.proxy.reload_policy import take_effect
from agent_sandbox.features.secrets.secret_sources import fetched, store
from agent_sandbox.features.secrets.secret_store import secrets_of
from agent_sandbox.features.secrets.sources.all_recipes import recipes_for
from agent_sandbox.features.secrets.sources.aws_keys import credentials_file
from agent_sandbox.features.secrets.sources.recipes import Recipe
from agent_sandbox.features.secrets.sources.ssh_key import MAKE_ONE
from agent_sandbox.host.git.ask import ask_git
from agent_sandbox.policy.http.host import OWN_HOST
from agent_sandbox.policytools.aws_entries import Api, NoEntryError, apis
from agent_sandbox.policytools.unset_secrets import Bound
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.project.project import Project

AWS, AWS_KEY = "aws", "aws.key"
AWS_SOURCE = "aws:default"
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
NPM, NPM_TOKEN, NPM_ENV = "npm", "npm.token", "NPM_TOKEN"
HTTPS_PORT = 443
SIGNING, GIT_KEY, SSH_KEY = "signing", "git.signing-key", "ssh-key:"


def set_up_aws(  # noqa: PLR0913 - the command's options
    project: Project, names: Sequence[str], region: str, source: str, ttl: str, *, path: Path | None
) -> None:
    """Store the keys for the hosts of these APIs, and have the policy sign requests to them."""
    wanted = _apis(names, region or next(filter(None, map(os.environ.get, REGIONS)), ""))
    recipe = next((one for one in recipes_for(project.root, os.environ) if one.name == AWS_KEY), None)
    before = recipe.hosts if recipe else _hosts_of(project)
    hosts = tuple(dict.fromkeys((*before, *(one.host for one in wanted))))
    usual = AWS_SOURCE if _has_own_settings() else ""
    is_there = store(project, Bound(name=AWS_KEY, hosts=hosts), source or (recipe.source if recipe else usual), ttl)
    entries: list[object] = [one.entry(AWS_KEY) for one in wanted]
    put_values({"domains": entries}, "under `domains`: " + ", ".join(names), shown(project.policy, cwd=Path.cwd()))
    take_effect(project, AWS_KEY, path, is_stored=is_there, how="signs with it")
    say(f"the proxy signs requests to {', '.join(one.host for one in wanted)}")
    say("in the sandbox, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY hold placeholders, and AWS_REGION the region")


def _apis(names: Sequence[str], region: str) -> tuple[Api, ...]:
    if not names:
        raise UserError([Problem(where="--api", what="no API is named", hint="such as --api dynamodb --api s3/BUCKET")])
    if not region:
        raise UserError([Problem(where="--region", what="no region is named", hint="such as --region eu-central-1")])
    try:
        return apis(names, region)
    except NoEntryError as error:
        raise UserError([Problem(where="--api", what=str(error), hint=error.hint)]) from error


def _hosts_of(project: Project) -> tuple[str, ...]:
    """Return the hosts that the secret is for already: setting it replaces them."""
    return next((one.hosts for one in secrets_of(project) if one.name == AWS_KEY), ())


def _has_own_settings() -> bool:
    """Return whether AWS's programs are set up on this machine; if not, the keys are asked for."""
    return shutil.which("aws") is not None or credentials_file(os.environ).is_file()


def set_up_npm(project: Project, source: str, ttl: str, *, path: Path | None) -> None:
    """Store the token, and have the policy inject it into requests that read packages."""
    host, port, below = _registry(project)
    is_there = store(project, Bound(name=NPM_TOKEN, hosts=(host,)), source, ttl)
    entry = _entry(host, port, below)
    put_values({"domains": [entry]}, f"under `domains`: {host}", shown(project.policy, cwd=Path.cwd()))
    take_effect(project, NPM_TOKEN, path, is_stored=is_there, how="injects it")
    say(f"the proxy sends {NPM_TOKEN} to {host}{below}, to read; in the sandbox, {NPM_ENV} holds a placeholder for it")


def _registry(project: Project) -> tuple[str, int, str]:
    """Return host, port and path of npm's registry, as npm on this machine names it, whatever the project says."""
    url = npm_registry(this_machine(os.environ, project=project.root))
    scheme, host, port = next(iter(place_of(url)), ("", "", None))
    if scheme != "https":
        what = f"npm's registry is {scheme}://{host}" if host else "npm on this machine names no registry"
        hint = "npm config set registry https://..., or add the entry by hand: agent-sandbox secret set --help"
        raise UserError([Problem(where=NPM, what=what, hint=hint)])
    return host, port or HTTPS_PORT, f"/{urlsplit(url).path.strip('/')}"


def _entry(host: str, port: int, path: str) -> dict[str, Any]:
    """Return the entry of the policy: the host of a registry below a path may serve much else."""
    credential = {
        "secret": NPM_TOKEN,
        "transform": {"type": "bearer"},
        "client_shim": {"kind": "env", "name": NPM_ENV, "prefix": "npm_"},
    }
    return {
        "host": host,
        "ports": [port],
        "encoded_slash": True,  # npm asks for @scope%2Fname
        "transform": {"request": {"headers": {"Authorization": credential}}},
        "rules": [{"methods": ["GET", "HEAD"], **({"path": {"prefix": path}} if path != "/" else {})}],
    }


def set_up_signing(project: Project, source: str, ttl: str, *, path: Path | None) -> None:
    """Store the key, or where to fetch it, and switch on `sign_commits`."""
    # Bound to the proxy's own name, the key is sent to no server.
    bound, source = Bound(name=GIT_KEY, hosts=(OWN_HOST,)), source or _usual_source(project)
    email = fetched(project, Recipe(name=GIT_KEY, hosts=bound.hosts, source=source)).value.decode().partition(" ")[0]
    is_there = store(project, bound, source, ttl)
    policy = shown(project.policy, cwd=Path.cwd())
    put_values({"settings": {"sign_commits": GIT_KEY}}, f"`sign_commits: {GIT_KEY}`", policy)
    take_effect(project, GIT_KEY, path, is_stored=is_there, how="names it")
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
        what, hint = "git on this machine has no SSH key file in `user.signingKey`", f"--from {SSH_KEY}FILE"
        raise UserError([Problem(where=SIGNING, what=what, hint=f"{MAKE_ONE}, then name it with {hint}")])
    return f"{SSH_KEY}{file}"
