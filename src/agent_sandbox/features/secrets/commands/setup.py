"""`agent-sandbox secret setup SERVICE`."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.features.policy.edit import put_options
from agent_sandbox.features.policy.file import find_policy
from agent_sandbox.features.proxy.reload_policy import take_effect
from agent_sandbox.features.secrets.git_setup import GitSetup, git_services_beside, set_up_git
from agent_sandbox.features.secrets.keyed_services import Keyed, keyed_services, named_secret
from agent_sandbox.features.secrets.other_setups import AWS, NPM, SIGNING, set_up_aws, set_up_npm, set_up_signing
from agent_sandbox.features.secrets.secret_sources import Source, TimeToLive, store
from agent_sandbox.features.trust.trust_gate import open_known
from agent_sandbox.policyfile import load_layer, services_beside
from agent_sandbox.policyfile.layer_file import PROJECT, LayerFile
from agent_sandbox.policyfile.parse.aliases import service_called
from agent_sandbox.policytools.unset_secrets import Bound
from agent_sandbox.problems import Problem, UserError

Service = Annotated[
    str,
    Argument(help="The service, such as `openai`, `gemini` or `github`."),
]
Repo = Annotated[
    list[str] | None,
    Option(help="A repository that the sandbox may read and push to; may be repeated.", metavar="OWNER/NAME"),
]
Read = Annotated[
    list[str] | None,
    Option(help="A repository that it may only read; may be repeated.", metavar="OWNER/NAME"),
]
Api = Annotated[
    list[str] | None,
    Option(help="With aws: an API that the sandbox may use, such as `dynamodb` or `s3/BUCKET`; may be repeated."),
]
Region = Annotated[str, Option(help="With aws: the region; by default the one in `AWS_REGION`.")]
GitReadOnly = Annotated[bool, Option(help="Deny pushes, to every git server.")]

OTHERS = {NPM: set_up_npm, SIGNING: set_up_signing}


def completions(*before: str) -> tuple[str, ...]:
    """Return the services that take an API key or a git token, for shell completion."""
    if before:
        return ()
    policy = find_policy(None, cwd=Path.cwd())
    return tuple(sorted({*keyed_services(policy), *git_services_beside(policy), AWS, *OTHERS}))


def setup(  # noqa: PLR0913 - each is an option
    service: Service,
    *,
    repo: Repo = None,
    read: Read = None,
    git_read_only: GitReadOnly = False,
    api: Api = None,
    region: Region = "",
    source: Source = "",
    ttl: TimeToLive = "",
    path: ProjectPath = None,
) -> None:
    """Set the API key or the git token of a service: store it for the service's hosts, and have the policy inject it.

    You are asked for the key, or it comes from stdin or `--from`. In the sandbox, clients find a placeholder. For a git
    server, it is for the repositories of the project's remotes, submodules and mounts, or for those that you name. With
    `signing`, the proxy signs the commits that are made in the sandbox; with `aws`, requests to the APIs that you name.
    `npm` is for private packages of the registry that npm uses on this machine.
    """
    project = open_known(path, cwd=Path.cwd())
    git = git_services_beside(project.policy)
    if (meant := service_called(service, git)) is not None:
        asked = GitSetup(written=repo or (), read=read or (), read_only=git_read_only, source=source)
        set_up_git(project, meant, asked, path=path)
        return
    if repo or read or git_read_only:
        what = f"{service} is not a git server"
        raise UserError([Problem(where="SERVICE", what=what, hint=f"git servers: {', '.join(sorted(git))}")])
    if service == AWS:
        set_up_aws(project, api or (), region, source, ttl, path=path)
        return
    if api or region:
        raise UserError([Problem(where="SERVICE", what=f"{service} has no regions", hint="these options are for aws")])
    if service in OTHERS:
        OTHERS[service](project, source, ttl, path=path)
        return
    keyed = keyed_services(project.policy)
    name = _meant(service, keyed, git)
    auth = keyed[name][1]
    own = load_layer(LayerFile(name=PROJECT, path=project.policy), services=services_beside(project.policy))
    # Another service for the same host would otherwise let requests through without the secret.
    named = [one.name for one in own.spec.services if one.name in keyed and keyed[one.name][1].host == auth.host]
    present = filter(None, (named_secret(own, one, keyed[one][0]) for one in named))
    secret = Bound(name=next(present, f"{name}.key"), hosts=(auth.host, *auth.more_hosts))
    is_there = store(project, secret, source, ttl)
    for one in named or [name]:
        if not named_secret(own, one, keyed[one][0]):
            put_options(one, {keyed[one][0]: secret.name}, project.policy)
    take_effect(project, secret.name, path, is_stored=is_there, how="injects it")
    say(f"the proxy sends {secret.name} to {auth.host}; in the sandbox, {auth.env} holds a placeholder for it")


def _meant(word: str, keyed: Keyed, git: Collection[str]) -> str:
    name = word if word in keyed else service_called(word, keyed)
    if name is None:
        known = ", ".join(sorted((*keyed, *git, AWS, *OTHERS)))
        hint = f"services with a key: {known}; for all others, see agent-sandbox secret set --help"
        raise UserError(
            [Problem(where="SERVICE", what=f"{word} is not a service with an API key or a git token", hint=hint)]
        )
    return name
