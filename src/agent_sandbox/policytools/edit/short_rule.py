"""Parse a rule in short form, `METHOD URL` or a host."""

import re
from collections.abc import Sequence

from msgspec import Struct

from agent_sandbox.policy.compiler.expand import expand
from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.decision import Effect
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.errors import Ambiguous
from agent_sandbox.policy.file.entry_spec import EntrySpec
from agent_sandbox.policy.file.short_form import HOW
from agent_sandbox.policy.http.git_requests import BRANCHES, PUSH, STARTS_PUSH
from agent_sandbox.policy.http.method import NAMEABLE
from agent_sandbox.policy.http.request import DEFAULT_PORTS, Request, parse_request
from agent_sandbox.policy.match.path_pattern import PathKind
from agent_sandbox.policy.match.private_hosts import how_to_name, why_private
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policyfile.parse.aliases import service_meant, service_near
from agent_sandbox.policyfile.text.decoding import decode_policy
from agent_sandbox.policytools.edit.insertion import written
from agent_sandbox.problems import Problem, UserError

# Sample text for a star, which no rule names.
ANY = "-any-"
SECTIONS = {Effect.ALLOW: "allow", Effect.DENY: "deny"}
HOST_AND_PORT = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|(?:\*\.)?[\w-][\w.-]*):(?P<port>[0-9]{1,5})")
# The hint for a host with a port, by the effect of the rule.
FOR_A_PORT = {
    Effect.ALLOW: "`GET https://{host}:{port}/**` allows reading; to allow every request, write "
    '`- {{host: "{host}", ports: [{port}]}}` under `domains`',
    Effect.DENY: "`https://{host}:{port}` denies every request to it",
}


class ShortRule(Struct, frozen=True, kw_only=True):
    """An entry with its section, text, rule, a sample request, and a layer with only this entry."""

    effect: Effect
    section: str
    text: str
    spec: EntrySpec
    rule: Rule
    request: Request
    alone: Layer


def read_short_rule(effect: Effect, words: Sequence[str]) -> ShortRule:
    """Return the rule for `METHOD URL` or a host, or raise UserError."""
    method, space, url = " ".join(words).strip().partition(" ")
    text = f"{method.upper()} {url.strip()}" if space else method
    if text in NAMEABLE:
        # As a host name it would deny nothing.
        raise UserError([Problem(where=text, what="a method without a URL", hint=HOW)])
    if at_port := HOST_AND_PORT.fullmatch(text):
        raise UserError([_port_problem(effect, text, at_port["host"], int(at_port["port"]))])
    if _is_host(text) and text.isalnum() and not service_meant(text) and (near := service_near(text)):
        hint = f"did you mean `{near}`? if {text} is a private host, {how_to_name(text, 443)}"
        raise UserError([Problem(where=text, what="no such service", hint=hint)])
    section = "domains" if effect is Effect.ALLOW and _is_host(text) else SECTIONS[effect]
    if section == SECTIONS[Effect.DENY] and _is_host(text) and (meant := service_meant(text)):
        # As a host it would deny nothing that the service allows.
        hint = f"`agent-sandbox policy services show {meant}` lists its hosts"
        raise UserError([Problem(where=text, what="a service, not a host", hint=hint)])
    try:
        content = f"{section}:\n- {written(text)}\n".encode("utf-8", "surrogateescape")
        layer = parse_layer(decode_policy(content, file=""), name="", file="", shown="", services=())
        (rule,) = expand(layer, {}).rules
        request = sample(rule.conditions)
    except UserError as error:
        raise UserError(Problem(where=text, what=found.what, hint=found.hint) for found in error.problems) from error
    except Ambiguous as doubt:
        raise UserError([Problem(where=text, what=str(doubt))]) from doubt
    spec = getattr(layer.spec, section)[0]
    return ShortRule(effect=effect, section=section, text=text, spec=spec, rule=rule, request=request, alone=layer)


def rules_of_push(rule: ShortRule) -> tuple[ShortRule, ...]:
    """Return the rules for both requests of a `git push` if this allows one of them, otherwise the rule alone."""
    method, _, url = rule.text.partition(" ")
    start = f"{BRANCHES}?{STARTS_PUSH}"
    ending = {"POST": PUSH, "GET": start}.get(method, "")
    if rule.effect is not Effect.ALLOW or not ending or not url.endswith(ending):
        return (rule,)
    repository = url.removesuffix(ending)
    # The GET is allowed only if the POST is.
    lines = (f"POST {repository}{PUSH}", f"GET {repository}{start}")
    return tuple(rule if line == rule.text else read_short_rule(Effect.ALLOW, (line,)) for line in lines)


def _port_problem(effect: Effect, text: str, host: str, port: int) -> Problem:
    name = host.strip("[]")
    if effect is Effect.ALLOW and (why := why_private(name)):
        return Problem(where=text, what=f"{name} {why}", hint=how_to_name(name, port))
    return Problem(where=text, what="a host with a port", hint=FOR_A_PORT[effect].format(host=host, port=port))


def _is_host(text: str) -> bool:
    """Return whether the text is only a host, and not a URL without a method."""
    return text != "" and not {" ", "/"} & {*text}


def sample(asked: Conditions) -> Request:
    """Return a request that matches the conditions, with `ANY` for each star."""
    scheme = min(asked.schemes or ("https",))
    ports = asked.ports or frozenset(DEFAULT_PORTS.values())
    usual = DEFAULT_PORTS[scheme]
    return parse_request(
        scheme=scheme,
        host=asked.host.sample,
        port=usual if usual in ports else min(ports),
        method=_method(asked),
        target=f"{_path(asked)}{'?' if asked.query else ''}{asked.query or ''}",
    )


def _method(asked: Conditions) -> str:
    methods = asked.methods or frozenset({"GET"})
    # GET implies HEAD, and is what the rule says.
    return "GET" if "GET" in methods else min(methods)


def _path(asked: Conditions) -> str:
    if asked.path is None:
        return "/"
    return asked.path.text.replace("**", ANY).replace("*", ANY) if asked.path.kind is PathKind.GLOB else asked.path.text
