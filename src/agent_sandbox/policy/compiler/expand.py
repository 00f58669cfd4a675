"""Expand the entries and services of a layer into rules, with all defaults."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

from msgspec import Struct

from agent_sandbox.policy.compiler.layer import Layer
from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.restrict import Restriction
from agent_sandbox.policy.engine.rule import Conditions, Rule
from agent_sandbox.policy.engine.rule_set import Budgeted, RuleSet
from agent_sandbox.policy.file.entry_spec import EntrySpec, RuleSpec
from agent_sandbox.policy.file.graphql_spec import GRAPHQL_METHOD
from agent_sandbox.policy.file.mcp_spec import MCP_METHODS, MCP_METHODS_ANYWHERE
from agent_sandbox.policy.file.service_options import Chosen, InvalidOption, choose
from agent_sandbox.policy.file.service_spec import variants
from agent_sandbox.policy.file.transform_spec import TransformSpec
from agent_sandbox.policy.http.method import STANDARD, with_implied
from agent_sandbox.policy.http.request import USUAL_PORTS
from agent_sandbox.policy.match.path_pattern import PathPattern
from agent_sandbox.problems import Problem, UserError


class Defaults(Struct, frozen=True, kw_only=True):
    """Conditions of an entry that names none: an allow takes the usual ports and methods, a deny takes all."""

    ports: frozenset[int] | None
    methods: frozenset[str] | None


DEFAULTS = {
    Effect.ALLOW: Defaults(ports=USUAL_PORTS, methods=STANDARD),
    Effect.DENY: Defaults(ports=None, methods=None),
}
# The only schemes over which a secret is sent.
ENCRYPTED = frozenset({"https"})
ALLOWING = frozenset({"services", "domains", "domains_file", "allow", "host_services"})
SECTIONS = (("domains", Effect.ALLOW), ("allow", Effect.ALLOW), ("deny", Effect.DENY))


def expand(layer: Layer, services: Mapping[str, Layer]) -> RuleSet:
    """Return the rules and settings of a layer and its services, all of which must be known.

    The layer's own rules rank above those of its services.
    """
    of_services = RuleSet(
        rules=tuple(
            rule for number in range(len(layer.spec.services)) for rule in _of_service(layer, number, services)
        ),
        replaced=frozenset(services[spec.name].name for spec in layer.spec.services if spec.merge_mode),
    )
    own = RuleSet(
        # A service as a layer: all of its parts, at their lowest levels.
        rules=(*_rules(layer, choose(layer.name, layer.spec.declared, {})), *_rules_of_names(layer)),
        replaced=frozenset(entry.host for entry in layer.spec.domains if entry.merge_mode),
        host_services=tuple(service.row(name) for name, service in layer.spec.host_services.items()),
        settings=layer.spec.settings.values(layer.origin("settings", "upstream"), layer.authorities),
        budgets=tuple(_budgets(layer, services)),
    )
    rules = of_services + own
    return _restricting(layer, rules) if layer.restricts else rules


def _budgets(layer: Layer, services: Mapping[str, Layer]) -> Iterator[Budgeted]:
    if layer.spec.settings.budget:
        key, origin = f"{layer.name} settings", layer.origin("settings", "budget")
        yield Budgeted(key, origin, layer.spec.settings.budget.value)
    for number, named in enumerate(layer.spec.services):
        if named.budget:
            service, origin = services[named.name].name, layer.origin("services", number, "budget")
            yield Budgeted(f"{layer.name} {service}", origin, named.budget.value, service)


def _of_service(layer: Layer, number: int, services: Mapping[str, Layer]) -> Iterator[Rule]:
    named = layer.spec.services[number]
    service = services[named.name]
    try:
        chosen = named.chosen(service.spec.declared)
    except InvalidOption as invalid:
        where = str(layer.origin("services", number, *invalid.at))
        raise UserError([Problem(where=where, what=invalid.what, hint=invalid.hint)]) from invalid
    return _rules(service, chosen)


def _restricting(layer: Layer, written: RuleSet) -> RuleSet:
    # A restricting layer adds no host service. It can turn inspection on, never off.
    settings = {name: value for name, value in written.settings.items() if name != "inspect"}
    allows = tuple(rule for rule in written.rules if rule.effect is Effect.ALLOW)
    if problems := [_injects(rule) for rule in allows if rule.conditions.inject]:
        raise UserError(problems)
    return replace(
        written,
        host_services=(),
        settings=settings,
        always_inspects=written.settings.get("inspect", False),
        rules=tuple(rule for rule in written.rules if rule.effect is Effect.DENY),
        restrictions=(Restriction(origin=layer.origin("tighten"), rules=allows),) if _names_an_allow(layer) else (),
    )


def _injects(rule: Rule) -> Problem:
    what = f"a restricting layer cannot inject {rule.conditions.inject}"
    hint = "move `transform` to the layer that allows the request"
    return Problem(where=str(rule.origin), what=what, hint=hint)


def _names_an_allow(layer: Layer) -> bool:
    # A section counts even if it expands to no rule: otherwise the layer that restricts most would restrict nothing.
    return layer.spec.allow_all or not layer.spec.model_fields_set.isdisjoint(ALLOWING)


def _rules(layer: Layer, chosen: Chosen) -> Iterator[Rule]:
    for section, effect in SECTIONS:
        entries: tuple[EntrySpec, ...] = getattr(layer.spec, section)
        for number, entry in enumerate(entries):
            yield from _rules_of_entry(layer, effect, entry, (section, number), chosen)


def _rules_of_names(layer: Layer) -> Iterator[Rule]:
    """Yield the rules of sections that a service cannot have: the host list and host services."""
    if layer.listed:
        every = EntrySpec.model_construct(host=layer.listed)
        yield _rule(Effect.ALLOW, every, RuleSpec(), layer.origin("domains_file"))
    for name, service in layer.spec.host_services.items():
        row = service.row(name)
        # The values have been validated already.
        asked = EntrySpec.model_construct(host=row.asked, ports=tuple(row.ports))
        yield _rule(Effect.ALLOW, asked, service, layer.origin("host_services", name))


def _rules_of_entry(
    layer: Layer, effect: Effect, entry: EntrySpec, place: tuple[str, int], chosen: Chosen
) -> Iterator[Rule]:
    for number, rule in enumerate(entry.rules or (RuleSpec(),)):
        origin = layer.origin(*place, "rules", number)
        # The denies of a service apply with any options.
        meant = variants(entry.host, rule, chosen) if effect is Effect.ALLOW else (rule,)
        yield from (_rule(effect, entry, variant, origin) for variant in meant)


def _path(effect: Effect, pattern: PathPattern) -> PathPattern:
    return pattern if effect is Effect.ALLOW else pattern.broadly()


# Consecutive rules of an entry share one set: a copy for each rule would be most of a large policy.
_ports = lru_cache(maxsize=1)(frozenset[int])


def _methods(rule: RuleSpec, defaults: Defaults) -> frozenset[str] | None:
    if rule.graphql and not rule.methods:
        return frozenset({GRAPHQL_METHOD})
    if rule.mcp and not rule.methods:
        return frozenset(MCP_METHODS if rule.path and rule.path.exact else MCP_METHODS_ANYWHERE)
    return with_implied(rule.methods) if rule.methods else defaults.methods


def _schemes(rule: RuleSpec, transform: TransformSpec | None) -> frozenset[str] | None:
    if transform:
        return ENCRYPTED
    return frozenset(rule.schemes) if rule.schemes else None


def _rule(effect: Effect, entry: EntrySpec, rule: RuleSpec, origin: Origin) -> Rule:
    defaults = DEFAULTS[effect]
    transform = rule.transform or entry.transform
    return Rule(
        effect=effect,
        conditions=Conditions(
            host=entry.host,
            ports=_ports(entry.ports) if entry.ports else defaults.ports,
            schemes=_schemes(rule, transform),
            methods=_methods(rule, defaults),
            path=_path(effect, rule.path.pattern) if rule.path and rule.path.pattern else None,
            query=rule.query.pattern if rule.query else None,
            headers=rule.header_pattern,
            max_body=rule.max_body,
            graphql=rule.graphql.pattern if rule.graphql else None,
            mcp=rule.mcp.pattern if rule.mcp else None,
            inject=transform.injection if transform else None,
            encoded_slash=entry.encoded_slash,
            inspect=entry.inspect,
            budget=entry.budget.value if entry.budget else None,
            ask=entry.ask if rule.ask is None else rule.ask,
        ),
        origin=origin,
        reason=rule.reason or entry.reason,
    )
