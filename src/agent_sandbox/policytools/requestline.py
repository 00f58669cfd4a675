"""`METHOD URL`, as a person writes it -> the request that a client would make of it."""

from agent_sandbox.policy.authority import parse_authority
from agent_sandbox.policy.effective import Policy
from agent_sandbox.policy.request import DEFAULT_PORTS, Request, parse_request
from agent_sandbox.problems import Problem, UserError


def read_request(policy: Policy, method: str, url: str) -> Request:
    """Return the request; raise UserError for what is no URL, and Ambiguous for what the proxy would refuse to read.

    The policy counts: whether a slash may stand encoded in a path is said there, host by host.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() not in DEFAULT_PORTS:
        hint = "write it as https://host/path"
        raise UserError([Problem(where=url, what="is no http or https URL", hint=hint)])
    scheme, rest = scheme.lower(), rest.partition("#")[0]
    end = next((index for index, letter in enumerate(rest) if letter in "/?"), len(rest))
    host, port = parse_authority(rest[:end], default_port=DEFAULT_PORTS[scheme])
    target = rest[end:] if rest[end:].startswith("/") else f"/{rest[end:]}"
    slash = policy.takes_encoded_slash(host)
    return parse_request(scheme=scheme, host=host, port=port, method=method, target=target, encoded_slash=slash)
