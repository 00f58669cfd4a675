"""The suggestion in a denial: one sentence that says how to allow the request."""

import re
from collections.abc import Sequence
from shlex import quote

from agent_sandbox.policy.decision import Cause, Decision
from agent_sandbox.policy.explain.package_manager import PackageManager
from agent_sandbox.policy.http.graphql_operation import KINDS
from agent_sandbox.policy.http.mcp_message import LISTABLE
from agent_sandbox.policy.http.method import NAMEABLE
from agent_sandbox.policy.http.request import USUAL_PORTS, Request
from agent_sandbox.policy.match.other_protocols import why_not_http
from agent_sandbox.policy.match.private_hosts import how_to_name, why_private

FILE = ".devcontainer/policy.yaml"
# How the places of its rules begin.
OWN_FILE = "policy.yaml:"
# Always `proxy reload`: it shows what the edit allows, and an invalid file changes nothing.
APPLY = "then: agent-sandbox proxy reload"
# Causes of denials that another entry would not change.
BEYOND_AN_ENTRY = {
    Cause.RULE: "a deny always wins: remove or narrow the entry at {}",
    Cause.CEILING: "{} has to allow it too",
    Cause.ASK: "run `agent-sandbox watch` to be asked, or change what requires it",
    Cause.POLICY: f"run `agent-sandbox policy check` and fix {FILE}",
}
# The commands that reload the policy themselves.
SETUP = "agent-sandbox secret setup "
# For a suggestion next to an entry that injects a secret.
WITHOUT = "would not inject {}; widen that entry instead"
OVER_TLS = "use https: {} is sent only over https"
PLAINLY = "no rule allows ambiguous GraphQL: send one query or mutation as JSON, with its values in `variables`"
NO_MCP = "no rule allows ambiguous MCP: send one JSON-RPC message as JSON, as the MCP libraries do"
ANSWERING = "list the request of the server that may be answered, such as `mcp: {methods: [elicitation/create]}`"
NOT_LISTABLE = "no rule can list this MCP method"
# What the path of a rule cannot contain, because servers differ in how they read it.
UNSPELLABLE = re.compile("%2F|;")
# Field names that some YAML parsers do not read as text.
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*", re.ASCII)
NO_TEXT = re.compile("y|n|yes|no|on|off|true|false|null", re.IGNORECASE)
ENCODED = str.maketrans({"*": "%2A", '"': "%22", "`": "%60"})


def advise(  # noqa: PLR0913 - each is a part of the suggestion
    asked: Request | str,
    decision: Decision,
    *,
    port: int = 443,
    services: Sequence[str] = (),
    services_first: bool = False,
    package_manager: PackageManager | None = None,
    git_command: str = "",
) -> str:
    """Return the suggestion, empty for an allowed request. For a CONNECT, `asked` is the host, and `port` is its port.

    `services` would allow the request; those of git servers and registries come first, because a clone or an
    installation needs many requests. `package_manager` is the tool that seems to fetch from its registry there.
    `git_command` allows the `git push` or fetch that the request belongs to.
    """
    if decision.allowed:
        return ""
    if decision.cause in BEYOND_AN_ENTRY:
        return f"{BEYOND_AN_ENTRY[decision.cause].format(decision.rule)}, {APPLY}"
    if isinstance(asked, Request):
        if decision.cause is Cause.OPERATION:
            return _for_operation(asked, decision)
        if git_command and not why_private(asked.host) and not (decision.wants and asked.scheme == "http"):
            return for_git(git_command)
        tool = package_manager if not services else None
        return _for_request(asked, decision, services, tool, services_first=services_first)
    return _for_private(asked, port) or _for_connect(asked, port)


def for_git(command: str) -> str:
    """Return the suggestion for a `git push` or fetch that this command allows."""
    return f"{_run(command)}{': it asks for a token if there is none' if command.startswith(SETUP) else ''}"


def allowing(rule: str) -> str:
    """Return the command that adds a rule, a host or a service to the policy and reloads it."""
    return f"agent-sandbox policy allow {quote(rule)}"


def _run(*commands: str) -> str:
    return f"run {', or '.join(f'`{one}`' for one in commands)} on the host machine"


def _for_connect(host: str, port: int) -> str:
    if port in USUAL_PORTS:
        return _run(allowing(f"[{host}]" if ":" in host else host))
    if why := why_not_http(port):
        return why
    return f"add `{entry_for_host(host, port)}` under `domains` in {FILE}, {APPLY}"


def _for_operation(asked: Request, decision: Decision) -> str:
    line = entry_for_body(asked)
    if line and (wider := _widen_list(asked, decision)):
        return f"{wider}, {APPLY}"
    if line and why_private(asked.host):
        return f"{widen_host_service(decision)}, {APPLY}"
    return f"add `{line}` under `domains` in {FILE}, {APPLY}" if line else why_no_entry(asked)


def _for_request(
    asked: Request,
    decision: Decision,
    services: Sequence[str],
    package_manager: PackageManager | None,
    *,
    services_first: bool,
) -> str:
    if decision.wants and asked.scheme == "http":
        return OVER_TLS.format(decision.wants)
    if asked.method not in NAMEABLE:
        return f"no rule can name the method {asked.method}"
    if private := _for_private(asked.host, asked.port):
        return private
    named = [allowing(service) for service in services]
    but = f", which {WITHOUT.format(decision.wants)}" if decision.wants else ""
    if UNSPELLABLE.search(asked.path):
        by_hand = f"add `{entry_below(asked)}` under `domains` in {FILE}{but}, {APPLY}"
        return f"{_run(*named)}, or {by_hand}" if named else by_hand
    itself = allowing(_short(asked, query=False))
    ways = _run(*named, itself) if services_first else _run(itself, *named)
    if package_manager:
        return f"for everything that {package_manager.tool} fetches: {package_manager.way}, or {ways}{but}"
    return f"{ways}{but}"


def _for_private(host: str, port: int) -> str:
    why = why_private(host)
    return f"{host} {why}: {how_to_name(host, port)}" if why else ""


def entry_for_host(host: str, port: int) -> str:
    """Return the entry of `domains` that allows the host."""
    return f"- {_host(host)}" if port in USUAL_PORTS else f"- {{host: {_host(host)}, ports: [{port}]}}"


def entry_for_body(request: Request) -> str:
    """Return the entry of `domains` that allows this GraphQL operation or MCP message; empty if no rule could."""
    listed = _listed_operation(request) or _listed_message(request)
    if not listed:
        return ""
    path = _in_quotes(request.path)
    rule = f"{{methods: [{request.method}], schemes: [{request.scheme}], path: {{exact: '{path}'}}, {listed}}}"
    return f"- {{host: {_host(request.host)}, ports: [{request.port}], rules: [{rule}]}}"


def widen_host_service(decision: Decision) -> str:
    """Return the suggestion for a host service, which has one rule: the list in it is too short."""
    return f"add it to the list at {decision.near_miss.partition(' allows ')[0]}"


def _widen_list(asked: Request, decision: Decision) -> str:
    """Return how to widen the nearest rule of the project's policy: another one would not inject its secret."""
    message, (nearest, _, allowed) = asked.message, decision.near_miss.partition(" allows ")
    if message is None or not nearest.startswith(OWN_FILE) or "with MCP" not in allowed:
        return ""
    key, name = ("tools", message.tool) if message.tool else ("methods", message.method)
    return f"add `{_as_text(name)}` to `mcp.{key}` at {nearest}"


def _listed_operation(request: Request) -> str:
    operation = request.operation
    if operation is None or operation.kind not in KINDS:
        return ""
    return f"graphql: {{{operation.kind}: [{', '.join(map(_as_text, sorted(operation.fields)))}]}}"


def _listed_message(request: Request) -> str:
    message = request.message
    if message is None or message.doubt or message.answers:
        return ""
    if message.tool:
        return f"mcp: {{tools: [{_as_text(message.tool)}]}}"
    return f"mcp: {{methods: [{message.method}]}}" if message.method in LISTABLE else ""


def _as_text(name: str) -> str:
    """Return a name so that YAML reads it as text."""
    return name if PLAIN.fullmatch(name) and not NO_TEXT.fullmatch(name) else f'"{name}"'


def why_no_entry(request: Request) -> str:
    """Return why no entry can allow what the body of a request asks for."""
    if request.message is None:
        return PLAINLY
    if request.message.doubt:
        return NO_MCP
    return ANSWERING if request.message.answers else NOT_LISTABLE


def _host(host: str) -> str:
    return f'"[{host}]"' if ":" in host else host


def _in_quotes(path: str) -> str:
    return path.translate(ENCODED).replace("'", "''")


def entry_below(request: Request) -> str:
    """Return the entry of `domains` for a path that no pattern can express: it allows the whole parent directory."""
    parent = _in_quotes(UNSPELLABLE.split(request.path, maxsplit=1)[0].rpartition("/")[0])
    host = _host(request.host)
    rule = f"{{methods: [{request.method}], schemes: [{request.scheme}], path: {{prefix: '{parent}/'}}}}"
    slash = "encoded_slash: true, " if "%2F" in request.path else ""
    return f"- {{host: {host}, ports: [{request.port}], {slash}rules: [{rule}]}}"


def entry_for_exactly(request: Request, *, query: bool = True) -> str:
    """Return the line of `allow` that allows this request, quoted only if YAML needs it.

    A `*` in the path is percent-encoded, so that it is not a wildcard.
    """
    text = _short(request, query=query)
    return "- '{}'".format(text.replace("'", "''")) if text.endswith(":") else f"- {text}"


def _short(request: Request, *, query: bool) -> str:
    address, mark, parameters = request.url.partition("?")
    return f"{request.method} {address.translate(ENCODED)}{mark + parameters if query else ''}"
