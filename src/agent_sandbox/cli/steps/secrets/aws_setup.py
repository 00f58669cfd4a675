"""Let the sandbox use APIs of AWS, with requests that the proxy signs: the keys are in the proxy alone."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from agent_sandbox.backends.project import Project
from agent_sandbox.cli.steps.policy.policy_edit import put_values
from agent_sandbox.cli.steps.policy.policy_file import shown
from agent_sandbox.cli.steps.secrets.secret_sources import store, take_effect
from agent_sandbox.cli.steps.secrets.secret_store import secrets_of
from agent_sandbox.cli.terminal.output import say
from agent_sandbox.policytools.aws_entries import Api, NoEntryError, apis
from agent_sandbox.policytools.unset_secrets import Bound
from agent_sandbox.problems import Problem, UserError
from agent_sandbox.runtime.sources.all_recipes import recipes_for
from agent_sandbox.runtime.sources.aws_keys import credentials_file

SERVICE, SECRET = "aws", "aws.key"
USUAL_SOURCE = "aws:default"
REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


def set_up_aws(  # noqa: PLR0913 - the command's options
    project: Project, names: Sequence[str], region: str, source: str, ttl: str, *, path: Path | None
) -> None:
    """Store the keys for the hosts of these APIs, and have the policy sign requests to them."""
    wanted = _apis(names, region or next(filter(None, map(os.environ.get, REGIONS)), ""))
    recipe = next((one for one in recipes_for(project.root, os.environ) if one.name == SECRET), None)
    before = recipe.hosts if recipe else _hosts_of(project)
    hosts = tuple(dict.fromkeys((*before, *(one.host for one in wanted))))
    usual = USUAL_SOURCE if _has_own_settings() else ""
    is_there = store(project, Bound(name=SECRET, hosts=hosts), source or (recipe.source if recipe else usual), ttl)
    entries: list[object] = [one.entry(SECRET) for one in wanted]
    put_values({"domains": entries}, "under `domains`: " + ", ".join(names), shown(project.policy, cwd=Path.cwd()))
    take_effect(project, SECRET, path, is_stored=is_there, how="signs with it")
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
    return next((one.hosts for one in secrets_of(project) if one.name == SECRET), ())


def _has_own_settings() -> bool:
    """Return whether AWS's programs are set up on this machine; if not, the keys are asked for."""
    return shutil.which("aws") is not None or credentials_file(os.environ).is_file()
