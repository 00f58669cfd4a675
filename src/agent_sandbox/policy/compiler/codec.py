"""Encode a compiled policy as plain data for the policy cache, and decode it without reading the policy files.

A decoded policy equals the one that was encoded. Nothing is ever left out: a policy that holds anything without an
encoding is not encoded at all.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from itertools import repeat
from typing import Any

from msgspec.structs import replace

from agent_sandbox.policy.decision import Effect, Origin
from agent_sandbox.policy.engine.grants import ask_rules
from agent_sandbox.policy.engine.index import build_index
from agent_sandbox.policy.engine.policy import NOBODY_ASKS, Policy
from agent_sandbox.policy.engine.restrict import Restriction
from agent_sandbox.policy.engine.rule import Conditions, Rule, verdict_of
from agent_sandbox.policy.engine.rule_set import Budgeted, RuleSet
from agent_sandbox.policy.http.body_size import Budget, Rate
from agent_sandbox.policy.http.graphql_operation import Confinement, OperationPattern
from agent_sandbox.policy.http.headers import HeaderPattern
from agent_sandbox.policy.http.query import QueryPattern
from agent_sandbox.policy.match.host_list import ListedHosts
from agent_sandbox.policy.match.host_pattern import EVERY, HostPattern, Reach
from agent_sandbox.policy.match.host_service import HostServiceRow
from agent_sandbox.policy.match.injection import Credential, Existing, Injection
from agent_sandbox.policy.match.path_pattern import PathKind, PathPattern, parse_path_pattern
from agent_sandbox.policy.match.upstream import Authorities, Upstream, UpstreamProxy

type Plain = Any  # JSON values that this module has written
type Lists = Mapping[str, ListedHosts]

# The fields of a policy that are JSON values already.
ASKS = ("asks_operations", "asks_messages", "asks_secrets", "asks_first")
PLAIN_FIELDS = ("digest", *ASKS, "has_budgets", "refusal", "empty")


class NotEncodableError(Exception):
    """The policy cannot be encoded: it is loaded from its files each time."""


def encode_policy(policy: Policy) -> Plain:
    """Return the policy as plain data, without the hosts of its host lists, or raise NotEncodableError."""
    _require_known(policy, {"rules", "index", "layers", "asking", *PLAIN_FIELDS})
    rules = policy.rules
    _require_known(rules, RULE_SET)
    return {
        "rules": _table(rules.rules),
        "restrictions": [{"origin": _origin(one.origin), "rules": _table(one.rules)} for one in rules.restrictions],
        "replaced": [one if isinstance(one, str) else _host(one) for one in rules.replaced],
        "host_services": [[row.name, _host(row.asked), sorted(row.ports), row.to] for row in rules.host_services],
        "settings": {name: _write_setting(value) for name, value in rules.settings.items()},
        "budgets": [[one.key, _origin(one.origin), _write_budget(one.budget), one.service] for one in rules.budgets],
        "always_inspects": rules.always_inspects,
        **{name: getattr(policy, name) for name in PLAIN_FIELDS},
        "layers": sorted(policy.layers),
    }


def decode_policy(form: Plain, lists: Lists) -> Policy:
    """Return the policy that was encoded; `lists` are its host lists by name, read from their files again."""
    rules = RuleSet(
        rules=_rules(form["rules"], lists),
        restrictions=tuple(
            Restriction(origin=Origin(**one["origin"]), rules=_rules(one["rules"], lists))
            for one in form["restrictions"]
        ),
        replaced=frozenset(one if isinstance(one, str) else _pattern(*one) for one in form["replaced"]),
        host_services=tuple(
            HostServiceRow(name=name, asked=_pattern(*asked), ports=frozenset(ports), to=to)
            for name, asked, ports, to in form["host_services"]
        ),
        settings={name: _read_setting(value) for name, value in form["settings"].items()},
        budgets=tuple(
            Budgeted(key, Origin(**origin), _read_budget(budget), service)
            for key, origin, budget, service in form["budgets"]
        ),
        always_inspects=form["always_inspects"],
    )
    plain = {name: form[name] for name in PLAIN_FIELDS}
    asking = ask_rules(rules) if form["asks_first"] else NOBODY_ASKS
    index, layers = build_index(rules.rules), frozenset(form["layers"])
    return Policy(rules=rules, index=index, layers=layers, asking=asking, **plain)


RULE_SET = frozenset({"rules", "restrictions", "replaced", "host_services", "settings", "budgets", "always_inspects"})


def _require_known(value: Any, known: Iterable[str]) -> None:  # noqa: ANN401 - any of the engine's values
    """Raise NotEncodableError if a field that is not `known` is set: losing a condition would allow more.

    Fields that a class computes from the others are computed again.
    """
    for part in fields(value):
        is_unknown = part.init and part.name not in known
        if is_unknown and (part.default is MISSING or getattr(value, part.name) != part.default):
            raise NotEncodableError


def _write_setting(value: Any) -> Plain:  # noqa: ANN401 - any setting's value
    if isinstance(value, Upstream):
        return _write_upstream(value)
    if not isinstance(value, bool | int | str):
        raise NotEncodableError
    return value


def _read_setting(form: Plain) -> Any:  # noqa: ANN401 - the same
    return _read_upstream(**form) if isinstance(form, dict) else form


def _write_upstream(upstream: Upstream) -> Plain:
    _require_known(upstream, {"layer", "proxy", "no_proxy", "ca", "origin"})
    return {
        "layer": upstream.layer,
        "proxy": upstream.proxy and [upstream.proxy.tls, upstream.proxy.host, upstream.proxy.port],
        "no_proxy": list(map(_host, upstream.no_proxy)),
        "ca": upstream.ca and [upstream.ca.name, upstream.ca.pem],
        "origin": _origin(upstream.origin),
    }


def _read_upstream(layer: str, proxy: Plain, no_proxy: Plain, ca: Plain, origin: Plain) -> Upstream:
    return Upstream(
        layer=layer,
        proxy=UpstreamProxy(**dict(zip(("tls", "host", "port"), proxy, strict=True))) if proxy else None,
        no_proxy=tuple(_pattern(*one) for one in no_proxy),
        ca=Authorities(**dict(zip(("name", "pem"), ca, strict=True))) if ca else None,
        origin=Origin(**origin),
    )


def _write_path(path: PathPattern) -> Plain:
    return [path.kind, path.text, path.any_case, path.broad]


def _read_path(form: Plain) -> PathPattern:
    kind, text, any_case, broad = form
    if broad:
        return parse_path_pattern(PathKind(kind), text).broadly()
    return parse_path_pattern(PathKind(kind), text, any_case=any_case and tuple(any_case))


def _pairs(form: Plain) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in form)


def _write_operations(pattern: OperationPattern) -> Plain:
    confined = pattern.confined
    return [pattern.named, confined and [getattr(confined, name) for name in CONFINEMENT]]


def _read_operations(form: Plain) -> OperationPattern:
    named, confined = form
    parts = confined and dict(zip(CONFINEMENT, map(_tuples, confined), strict=True))
    return OperationPattern(named=_tuples(named), confined=Confinement(**parts) if parts else None)


def _read_messages(form: Plain) -> Any:  # noqa: ANN401 - a pattern
    # Few policies have one.
    from agent_sandbox.policy.match.mcp_pattern import mcp_pattern  # noqa: PLC0415

    return mcp_pattern(*form)


def _tuples(form: Plain) -> Any:  # noqa: ANN401 - lists in lists of any depth
    return tuple(map(_tuples, form)) if isinstance(form, list | tuple) else form


CONFINEMENT = Confinement.__struct_fields__
CREDENTIAL = Credential.__struct_fields__
LISTS = ("also", "others", "parameters")


def _write_injection(inject: Injection) -> Plain:
    return [inject.existing, [[getattr(one, name) for name in CREDENTIAL] for one in inject.credentials]]


def _read_injection(form: Plain) -> Injection:
    existing, credentials = form
    rows = (dict(zip(CREDENTIAL, one, strict=True)) for one in credentials)
    made = tuple(Credential(**{**row, **{name: tuple(row[name]) for name in LISTS}}) for row in rows)
    return Injection(credentials=made, existing=Existing(existing))


def _write_budget(budget: Budget) -> Plain:
    return {name: list(rate) for name, rate in budget.rates()}


def _read_budget(form: Plain) -> Budget:
    return Budget(**{name: Rate(*rate) for name, rate in form.items()})


def _unchanged(value: Plain) -> Plain:
    return value


# The encoder and decoder of each condition except the host. Conditions that are not set are left out.
CONDITIONS: Mapping[str, tuple[Callable[[Any], Plain], Callable[[Plain], Any]]] = {
    "ports": (sorted, frozenset),
    "schemes": (sorted, frozenset),
    "methods": (sorted, frozenset),
    "path": (_write_path, _read_path),
    "query": (lambda query: query.parameters, lambda form: QueryPattern(parameters=_pairs(form))),
    "headers": (lambda headers: headers.named, lambda form: HeaderPattern(named=_pairs(form))),
    "graphql": (_write_operations, _read_operations),
    "mcp": (lambda mcp: [mcp.tools, mcp.methods], _read_messages),
    "inject": (_write_injection, _read_injection),
    "max_body": (_unchanged, _unchanged),
    "encoded_slash": (_unchanged, _unchanged),
    "inspect": (_unchanged, _unchanged),
    "budget": (_write_budget, _read_budget),
    "ask": (_unchanged, _unchanged),
}
DEFAULTS = dict(zip(Conditions.__struct_fields__[1:], Conditions.__struct_defaults__, strict=True))  # all but the host


def _table(rules: Sequence[Rule]) -> Plain:
    """Return the rules in columns; values that many rules share are written once."""
    asked: dict[tuple[Any, ...], int] = {}
    places: dict[tuple[str, str], int] = {}
    rows = []
    for rule in rules:
        conditions, origin = rule.conditions, rule.origin
        rows.append(
            (
                rule.effect,
                *_host(conditions.host),
                asked.setdefault(tuple(getattr(conditions, name) for name in DEFAULTS), len(asked)),
                places.setdefault((origin.file, origin.layer), len(places)),
                origin.line,
                rule.reason,
            )
        )
    return {"asked": list(map(_write_asked, asked)), "places": list(places), "columns": list(zip(*rows, strict=True))}


def _write_asked(values: tuple[Any, ...]) -> Plain:
    given = {name: value for (name, default), value in zip(DEFAULTS.items(), values, strict=True) if value != default}
    if not given.keys() <= CONDITIONS.keys():
        raise NotEncodableError
    return {name: CONDITIONS[name][0](value) for name, value in given.items()}


def _read_asked(form: Plain) -> Conditions:
    """Return the conditions, with a dummy for the host."""
    return Conditions(host=EVERY, **{name: CONDITIONS[name][1](value) for name, value in form.items()})


def _rules(table: Plain, lists: Lists) -> tuple[Rule, ...]:
    if not table["columns"]:
        return ()
    effects, reaches, names, asked, places, lines, reasons = table["columns"]
    shared = [_read_asked(one) for one in table["asked"]]
    alike = [shared[place] for place in asked]
    plain = [one.plain for one in shared]
    conditions = list(map(_with_host, alike, _hosts(reaches, names, lists)))
    effects = list(map({str(one): one for one in Effect}.__getitem__, effects))
    origins = [
        Origin(file=table["places"][place][0], line=line, layer=table["places"][place][1])
        for place, line in zip(places, lines, strict=True)
    ]
    rules = _made(
        Rule,
        effect=effects,
        conditions=conditions,
        origin=origins,
        reason=reasons,
        verdict=list(map(verdict_of, effects, origins, reasons, alike)),
        ports=[one.ports for one in alike],
        methods=[one.methods for one in alike],
        plain=[plain[place] for place in asked],
    )
    return tuple(rules)


def _with_host(conditions: Conditions, host: HostPattern) -> Conditions:
    return replace(conditions, host=host)


def _hosts(reaches: Sequence[str], names: Sequence[str], lists: Lists) -> list[HostPattern]:
    every = _made(HostPattern, reach=list(map({str(one): one for one in Reach}.__getitem__, reaches)), name=names)
    return [lists[one.name] if one.reach is Reach.LISTED else one for one in every]


def _made[T](kind: type[T], **columns: Iterable[Any]) -> list[T]:
    """Return instances of a frozen data class from one column per field, without calling its `__init__`.

    The `__init__` of a frozen data class takes five times as long, most of the time that loading a thousand hosts would
    take. The values passed through it before they were encoded.
    """
    made = list(map(object.__new__, repeat(kind, len(columns[next(iter(columns))]))))  # type: ignore[arg-type] # sized
    for name, column in columns.items():
        deque(map(getattr(kind, name).__set__, made, column), maxlen=0)
    return made


def _host(pattern: HostPattern) -> tuple[str, str]:
    if isinstance(pattern, ListedHosts) and pattern.dropped:
        raise NotEncodableError  # the list is read from its file again, which still holds the dropped hosts
    return str(pattern.reach), pattern.name


def _pattern(reach: str, name: str) -> HostPattern:
    return HostPattern(reach=Reach(reach), name=name)


def _origin(origin: Origin) -> Plain:
    return {"file": origin.file, "line": origin.line, "layer": origin.layer}
