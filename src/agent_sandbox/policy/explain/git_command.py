"""The command that allows a denied `git push`, or a fetch from one more repository of a server."""

import re
from collections.abc import Collection, Mapping
from shlex import quote

from agent_sandbox.policy.http.git_requests import fetched_repository, push_after, pushed_repository
from agent_sandbox.policy.http.request import Request

# A repository on a server that has a service: with its groups, if it is in any.
REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9._-]+)+", re.ASCII)
# What the short form of a rule cannot express, or reads as a star.
SPECIAL = re.compile(r"%|;|\*")


def git_command(request: Request, git_services: Mapping[str, str], layers: Collection[str]) -> str:
    """Return the command that allows the push or the fetch, empty if it is neither or only an edit by hand allows it.

    `git_services` has the services of git servers by host. They also need a token, so the command sets it up. A fetch
    gets a command if the service is among the `layers` of the policy, which then names other repositories.
    """
    pushed, fetched = pushed_repository(request), fetched_repository(request)
    service = git_services.get(request.host, "") if (request.scheme, request.port) == ("https", 443) else ""
    if service and REPOSITORY.fullmatch(pushed):
        return f"agent-sandbox secret setup {service} --repo {pushed}"
    if f"service {service}" in layers and REPOSITORY.fullmatch(fetched):
        return f"agent-sandbox secret setup {service} --read {fetched}"
    push = push_after(request) or request
    if not pushed or SPECIAL.search(push.path):
        return ""
    return f"agent-sandbox policy allow {quote(f'POST {push.url}')}"
