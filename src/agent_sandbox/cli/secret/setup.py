"""`agent-sandbox secret setup SERVICE`."""

from pathlib import Path
from typing import Annotated

import typer

from agent_sandbox.cli.framework.options import ProjectPath
from agent_sandbox.cli.steps.policy.policy_edit import put_secret
from agent_sandbox.cli.steps.policy.reload_policy import reload_stack, report
from agent_sandbox.cli.steps.secrets.keyed_services import Keyed, keyed_services
from agent_sandbox.cli.steps.secrets.secret_sources import Source, TimeToLive, store
from agent_sandbox.cli.steps.trust_gate import open_known
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policyfile import load_layer, services_beside
from agent_sandbox.policyfile.layer_file import PROJECT, LayerFile
from agent_sandbox.policyfile.parse.aliases import service_called
from agent_sandbox.policytools.unset_secrets import Bound
from agent_sandbox.problems import Problem, UserError

Service = Annotated[str, typer.Argument(help="The service, such as `openai` or `gemini`.", show_default=False)]


def setup(service: Service, *, source: Source = "", ttl: TimeToLive = "", path: ProjectPath = None) -> None:
    """Set the API key of a service: store it for the service's host, and have the policy inject it.

    You are asked for the key, or it comes from stdin or `--from`. In the sandbox, clients find a placeholder.
    """
    project = open_known(path, cwd=Path.cwd())
    keyed = keyed_services(project.policy)
    name = _meant(service, keyed)
    auth = keyed[name][1]
    own = load_layer(LayerFile(name=PROJECT, path=project.policy), services=services_beside(project.policy))
    # Another service for the same host would otherwise let requests through without the secret.
    named = [one.name for one in own.spec.services if one.name in keyed and keyed[one.name][1].host == auth.host]
    present = filter(None, (_named_in(own, one, keyed[one][0]) for one in named))
    secret = Bound(name=next(present, f"{name}.key"), hosts=(auth.host,))
    is_there = store(project, secret, source, ttl)
    for one in named or [name]:
        put_secret(one, keyed[one][0], secret.name, project.policy)
    if is_there:
        report(reload_stack(path))
    else:
        say(f"{secret.name} will be fetched from its source by agent-sandbox up")
    say(f"the proxy sends {secret.name} to {auth.host}; in the sandbox, {auth.env} holds a placeholder for it")


def _meant(word: str, keyed: Keyed) -> str:
    name = word if word in keyed else service_called(word, keyed)
    if name is None:
        hint = f"services with a key: {', '.join(sorted(keyed))}; for all others, see agent-sandbox secret set --help"
        raise UserError([Problem(where="SERVICE", what=f"{word} is not a service with an API key", hint=hint)])
    return name


def _named_in(layer: Layer, service: str, option: str) -> str:
    """Return the name of the secret that the policy gives the service already, or an empty string."""
    given = next((one.model_extra or {} for one in layer.spec.services if one.name == service), {}).get(option, "")
    return str(given.get("name", "")) if isinstance(given, dict) else str(given)
