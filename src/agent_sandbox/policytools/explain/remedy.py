"""Find the narrowest entry that would allow a denied request. Every suggestion is verified."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from agent_sandbox.policy.decision import Cause, Decision, Origin
from agent_sandbox.policy.engine.decide import awaits_message, decide
from agent_sandbox.policy.engine.policy import Policy
from agent_sandbox.policy.explain.advice import (
    BEYOND_AN_ENTRY,
    OVER_TLS,
    entry_below,
    entry_for_body,
    entry_for_exactly,
    entry_for_host,
    why_no_entry,
    widen_host_service,
)
from agent_sandbox.policy.explain.git_command import git_command
from agent_sandbox.policy.explain.matching_services import matching_services
from agent_sandbox.policy.explain.package_manager import PackageManager, package_manager_of
from agent_sandbox.policy.http.method import NAMEABLE
from agent_sandbox.policy.http.path import readings
from agent_sandbox.policy.http.request import Request
from agent_sandbox.policy.match.private_hosts import how_to_name, why_private
from agent_sandbox.policyfile.layer_file import PROJECT
from agent_sandbox.policyfile.sources import git_services
from agent_sandbox.problems import UserError

# Returns a policy per service; called only if it could help.
Offers = Callable[[], Mapping[str, Policy]]

ONLY_NARROWS = "{} has `tighten: true`, so that file allows nothing by itself: allow it in another layer"
UNKNOWN_MESSAGE = "it depends on the MCP message: pass it with --mcp 'tools/call search'"
UNKNOWN = "it depends on the GraphQL operation: pass it with --graphql '{ viewer { login } }'"


type Entry = Mapping[str, Any]


class Choice(Struct, frozen=True, kw_only=True):
    """An entry of `services` with options; `instead_of` is the origin of the entry that it replaces, if any."""

    entry: Entry
    instead_of: Origin | None = None
    # Whether it names repositories while the entry that it replaces means all.
    closes_others: bool = False

    @property
    def line(self) -> str:
        """The entry as a line of the policy."""
        from agent_sandbox.policytools.edit.flow_style import flow  # noqa: PLC0415 - not needed for an allowed request

        return f"- {flow(self.entry)}"


# Returns entries for services with options.
Choices = Callable[[Request, Mapping[str, Policy]], Iterable[Choice]]


class Remedy(Struct, frozen=True, kw_only=True):
    """The narrowest `line` for a `section`, and services that would do as well, or what is `in_the_way` of any.

    `choices` are services with the options that the request needs. `package_manager` is the tool that seems to fetch
    from its registry there, if no service matches.
    """

    section: str = ""
    line: str = ""
    choices: tuple[Choice, ...] = ()
    services: tuple[str, ...] = ()
    package_manager: PackageManager | None = None
    # The command that allows the `git push` or fetch that the request belongs to; then there is no line.
    git_command: str = ""
    in_the_way: str = ""
    # What the nearest entry injects and the line would not.
    without: str = ""


def no_choices(_request: Request, _offers: Mapping[str, Policy]) -> tuple[Choice, ...]:
    """Return no choices, for callers that need none."""
    return ()


def remedy(
    policy: Policy, request: Request, decision: Decision, offers: Offers, choices: Choices = no_choices
) -> Remedy:
    """Return what the user can do about a denial."""
    if decision.cause in {Cause.RULE, Cause.ASK}:
        return Remedy(in_the_way=BEYOND_AN_ENTRY[decision.cause].format(decision.rule))
    if why_not := _no_line(request, decision):
        return Remedy(in_the_way=why_not)
    ways = readings(request.path)
    beyond = (
        str(restriction.origin)
        for restriction in policy.rules.restrictions
        if restriction.verdict(request, ways) is None
    )
    in_the_way = "; ".join(BEYOND_AN_ENTRY[Cause.CEILING].format(origin) for origin in beyond)
    if decision.cause is Cause.CEILING:
        return Remedy(in_the_way=in_the_way)
    if own := next(
        (restriction.origin for restriction in policy.rules.restrictions if restriction.origin.layer == PROJECT), None
    ):
        return Remedy(in_the_way=ONLY_NARROWS.format(own))
    if decision.cause is Cause.OPERATION:
        line = entry_for_body(request)
        works = bool(line) and _allows("domains", line, request)
        unknown = UNKNOWN_MESSAGE if awaits_message(policy, request) else UNKNOWN
        why_not = why_no_entry(request) if request.operation or request.message else unknown
        return Remedy(section="domains", line=line) if works else Remedy(in_the_way=why_not)
    command = _git_command(request, policy.layers)
    section, line = ("", "") if command else _line(request)
    offered = offers()
    fit, chosen = matching_services(request, offered, policy), tuple(choices(request, offered))
    package_manager = None if fit or chosen else _package_manager(request)
    return Remedy(
        section=section,
        line=line,
        choices=chosen,
        services=fit,
        package_manager=package_manager,
        git_command=command,
        in_the_way=in_the_way,
        without=decision.wants,
    )


def _no_line(request: Request, decision: Decision) -> str:
    """Return why no line can allow the request, empty if one may."""
    if request.method not in NAMEABLE:
        return f"no rule can name the method {request.method}"
    if why_private(request.host):
        if decision.cause is Cause.OPERATION and entry_for_body(request):
            return widen_host_service(decision)
        return how_to_name(request.host, request.port)
    return OVER_TLS.format(decision.wants) if decision.wants and request.scheme == "http" else ""


def _package_manager(request: Request) -> PackageManager | None:
    from agent_sandbox.policyfile.package_managers import package_managers  # noqa: PLC0415 - not needed for an allowed request

    return package_manager_of(request, package_managers())


def _git_command(request: Request, layers: Collection[str]) -> str:
    return git_command(request, git_services(), layers)


def _line(request: Request) -> tuple[str, str]:
    """Return the narrowest line that allows the request, with its section."""
    return next((way for way in _narrowest_first(request) if _allows(*way, request)), ("", ""))


def _narrowest_first(request: Request) -> Iterator[tuple[str, str]]:
    yield "allow", entry_for_exactly(request)
    yield "allow", entry_for_exactly(request, query=False)
    yield "domains", entry_below(request)
    yield "domains", entry_for_host(request.host, request.port)


def _allows(section: str, line: str, request: Request) -> bool:
    # Not needed for an allowed request.
    from agent_sandbox.policy.compiler.compile import compile_policy  # noqa: PLC0415 - see above
    from agent_sandbox.policyfile.parse.parsing import parse_layer  # noqa: PLC0415 - see above

    try:
        layer = parse_layer(f"{section}:\n  {line}\n", name="trial", file="trial", shown="trial", services=())
    except UserError:
        return False
    return decide(compile_policy([layer], {}), request).allowed
