"""The command that allows a denied `git push`."""

import re
from collections.abc import Mapping
from shlex import quote

from agent_sandbox.policy.http.git_push import push_after, pushed_repository
from agent_sandbox.policy.http.request import Request

# A repository on a server that has a service: with its groups, if it is in any.
REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9._-]+)+", re.ASCII)
# What the short form of a rule cannot express, or reads as a star.
SPECIAL = re.compile(r"%|;|\*")


def push_command(request: Request, git_services: Mapping[str, str]) -> str:
    """Return the command that allows the push, empty if this is no push or only an edit by hand allows it.

    `git_services` has the services of git servers by host. They also need a token, so the command sets it up.
    """
    repository = pushed_repository(request)
    service = git_services.get(request.host, "") if (request.scheme, request.port) == ("https", 443) else ""
    if service and REPOSITORY.fullmatch(repository):
        return f"agent-sandbox secret setup {service} --repo {repository}"
    push = push_after(request) or request
    if not repository or SPECIAL.search(push.path):
        return ""
    return f"agent-sandbox policy allow {quote(f'POST {push.url}')}"
