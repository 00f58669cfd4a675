import pytest
from msgspec.structs import replace

from agent_sandbox.policy import compile_policy
from agent_sandbox.policytools.compare.difference import Change, difference
from policy_texts import LayerOf, PolicyOf
from table_tests import each


def told(changes: tuple[Change, ...]) -> list[str]:
    return [f"{change.kind} {change.what}" for change in changes]


def domains(*entries: str) -> str:
    return "domains:\n" + "".join(f"  - {entry}\n" for entry in entries)


def secret(*, name: str = "s", header: str = "X", kind: str = "bearer", existing: str = "fail") -> str:
    """Return an entry that injects a secret."""
    headers = f"{{{header}: {{secret: {name}, transform: {{type: {kind}}}}}}}"
    return f"{{host: a.test, transform: {{request: {{headers: {headers}, on_existing_header: {existing}}}}}}}"


@each(
    ("old", "new", "opens"),
    [
        (domains("a.test"), domains("a.test", "b.test"), ["rule any method b.test"]),
        (domains("a.test"), domains(".a.test"), ["rule any method .a.test"]),
        (
            domains("{host: a.test, rules: [{methods: [GET]}]}"),
            domains("{host: a.test, rules: [{methods: [GET, POST]}]}"),
            ["rule POST a.test"],
        ),
        (
            domains("{host: a.test, rules: [{methods: [GET]}, {methods: [POST]}]}"),
            domains("{host: a.test, rules: [{methods: [GET, POST]}]}"),
            [],
        ),
        (
            domains("{host: a.test, rules: [{schemes: [https]}]}"),
            domains("{host: a.test}"),
            ["rule any method http://a.test"],
        ),
        (domains("{host: a.test, ports: [443]}"), domains("a.test"), ["rule any method a.test on port 80"]),
        (
            domains("{host: a.test, rules: [{path: {prefix: /v1}}]}"),
            domains("{host: a.test, rules: [{path: {prefix: /v1/x}}, {path: {exact: /v2}}]}"),
            ["rule any method a.test/v2"],
        ),
        (
            domains("{host: a.test, rules: [{max_body: 1KiB}]}"),
            domains("{host: a.test, rules: [{max_body: 2KiB}]}"),
            ["rule any method a.test up to 2KiB"],
        ),
        *(
            (domains(old), domains(new), [f"rule any method https://a.test with secret s in x{told}"])
            for old, new, told in (
                ("a.test", secret(), ""),
                (secret(name="t"), secret(), ""),
                (secret(header="Y"), secret(), ""),
                (secret(), secret(kind="basic, username: u"), " as 'u'"),
                (secret(kind="basic, username: v"), secret(kind="basic, username: u"), " as 'u'"),
                (secret(), secret(existing="replace"), " replacing what is sent"),
                (secret(existing="replace"), secret(), ""),
            )
        ),
        (domains(secret()), domains("a.test"), ["rule any method a.test"]),
        (domains(secret()), domains(secret()) + "deny: [b.test]", []),
        (domains("b.test"), domains("b.test", secret()) + "deny: [a.test]", []),
        (domains("a.test") + "deny: [x.a.test, b.test]", domains("a.test"), []),
        (domains(".a.test") + "deny: [x.a.test]", domains(".a.test"), ["deny any method x.a.test"]),
        (domains(".a.test") + "deny: [x.a.test]", domains(".a.test") + "deny: ['*.a.test']", []),
        (domains("a.test"), domains("a.test", "b.test") + "deny: [b.test]", []),
        ("version: 1", domains("a.test"), ["rule any method a.test"]),
        (domains("a.test"), "version: 1", []),
        (
            domains("a.test"),
            domains("a.test", "{host: a.test, encoded_slash: true, rules: [{path: {exact: /x}}]}"),
            ["rule any method a.test/x", "slash a.test"],
        ),
        ("version: 1", domains("{host: a.test, encoded_slash: true}"), ["rule any method a.test"]),
        (domains(".a.test"), domains("{host: .a.test, inspect: false}"), ["inspect .a.test"]),
        (
            domains(".a.test") + "deny: [any.a.test]",
            domains("{host: .a.test, inspect: false}") + "deny: [any.a.test]",
            ["inspect .a.test"],
        ),
        (
            "allow_all: true\n" + domains("'*'", "{host: x.a.test, inspect: true}"),
            "allow_all: true\n" + domains("{host: '*', inspect: false}", "{host: x.a.test, inspect: true}"),
            ["inspect *"],
        ),
        (
            domains("{host: .a.test, inspect: false}", "{host: x.a.test, inspect: true}"),
            domains("{host: .a.test, inspect: false}"),
            ["inspect .a.test"],
        ),
        (domains("{host: .a.test, inspect: false}"), domains("{host: '*.a.test', inspect: false}"), []),
        (
            domains("db.a.test"),
            domains("db.a.test") + "host_services: {db: {to: 'db.a.test:80'}}",
            ["target db.a.test:80 leads to db.a.test, now a host service"],
        ),
        (
            "host_services: {lab: {to: host:80}}",
            "host_services: {lab: {to: host:80}, db: {to: 10.0.0.1:80}}",
            ["rule any method 10.0.0.1 on port 80"],
        ),
    ],
)
def test_lists_what_opens_and_the_same_as_stops_in_the_other_direction(
    policy_of: PolicyOf, old: str, new: str, opens: list[str]
) -> None:
    assert told(difference(policy_of(old), policy_of(new)).opens) == opens
    assert told(difference(policy_of(new), policy_of(old)).stops) == opens


def test_lists_up_to_three_denies_as_exceptions_of_a_change(policy_of: PolicyOf) -> None:
    deny = "".join(f"  - {{host: a.test, rules: [{{path: {{exact: /{n}}}}}]}}\n" for n in range(5))
    ((change,), stops) = (
        difference(policy_of("version: 1"), policy_of(f"domains: [a.test]\ndeny:\n{deny}  - b.test\n")).opens,
        difference(policy_of("version: 1"), policy_of("domains: [a.test]")).stops,
    )
    assert change.exceptions == tuple(f"policy.yaml:{n + 3} denies any method a.test/{n}" for n in range(3))
    assert (change.origin.line, stops) == (1, ())


CEILING = "tighten: true\ndomains: [{}]"


@pytest.mark.parametrize(
    ("before", "after", "opens", "stops"),
    [
        ("a.test", "a.test", [], []),
        ("a.test", "a.test, b.test", ["ceiling layer project"], []),
        ("a.test", "'*.x.test'", ["ceiling layer project"], ["ceiling layer project"]),
    ],
)
def test_lists_changes_of_a_restricting_layer(
    layer_of: LayerOf, before: str, after: str, opens: list[str], stops: list[str]
) -> None:
    rules = layer_of("domains: [a.test, b.test]")
    old, new = (compile_policy([layer_of(CEILING.format(text)), rules], {}) for text in (before, after))
    got = difference(old, new)
    assert (told(got.opens), told(got.stops)) == (opens, stops)


def test_a_rule_that_a_restriction_does_not_allow_opens_nothing(layer_of: LayerOf) -> None:
    restriction = layer_of(CEILING.format("a.test"))
    old, new = (
        compile_policy([restriction, layer_of(text)], {}) for text in ("domains: [a.test]", "domains: [a.test, b.test]")
    )
    assert difference(old, new).opens == ()


def test_lists_a_host_service_with_a_new_target(policy_of: PolicyOf) -> None:
    old, new = policy_of("host_services: {db: {to: host:80}}"), policy_of("host_services: {x: {to: db:80}}")
    assert told(difference(old, new).opens) == ["target db:80 leads to db, before to host"]
    assert difference(old, old).opens == ()


UPSTREAM = domains("a.test") + "settings: {{upstream: {{proxy: 'http://{}.corp.example:3128', ca: corp.pem}}}}"


@each(
    ("old", "new", "opens", "stops"),
    [
        (
            domains("a.test"),
            UPSTREAM.format("proxy"),
            [
                "upstream all allowed requests go through http://proxy.corp.example:3128",
                "upstream corp.pem can sign for every host",
            ],
            [],
        ),
        (
            UPSTREAM.format("proxy"),
            UPSTREAM.format("other"),
            ["upstream all allowed requests go through http://other.corp.example:3128"],
            ["upstream all allowed requests go through http://proxy.corp.example:3128"],
        ),
        (UPSTREAM.format("proxy"), f"# said again\n{UPSTREAM.format('proxy')}", [], []),
    ],
)
def test_lists_changes_of_upstream_proxy_and_ca(
    policy_of: PolicyOf, old: str, new: str, opens: list[str], stops: list[str]
) -> None:
    found = difference(policy_of(old), policy_of(new))
    assert (told(found.opens), told(found.stops)) == (opens, stops)
    assert {str(change.origin) for change in found.opens} <= {"policy.yaml:3"}


def test_lists_a_removed_or_changed_budget_of_the_sandbox(policy_of: PolicyOf) -> None:
    one, other, none = (
        policy_of(domains("a.test") + text)
        for text in ("settings: {budget: {requests: 1/min}}", "settings: {budget: {requests: 2/min}}", "")
    )
    assert told(difference(one, none).opens) == ["budget budget of 1 requests per min"]
    assert difference(none, one).opens == difference(one, one).opens == ()
    assert told(difference(one, other).stops) == ["budget budget of 2 requests per min"]


def test_lists_a_removed_budget_of_a_service(layer_of: LayerOf) -> None:
    services = {"x": replace(layer_of("domains: [a.test]"), name="service x")}
    old, new = (
        compile_policy([layer_of(f"services: [{{name: x{text}}}]")], services)
        for text in (", budget: {requests: 1/min}", "")
    )
    assert told(difference(old, new).opens) == ["budget budget of 1 requests per min for the service x"]
    assert told(difference(old, new).stops) == []


ASKS = "{host: a.test, rules: [{path: {prefix: /X}, ask: true}]}"


@each(
    ("old", "new", "opens", "stops"),
    [
        ("a.test", f"a.test, {ASKS}", [], ["ask any method a.test/X/..."]),
        ("b.test", ASKS, ["rule any method a.test/X/... if a person allows it"], ["rule any method b.test"]),
        (ASKS, ASKS.replace("true", "false"), ["ask any method a.test/X/..."], []),
        (
            "{host: a.test, rules: [{path: {exact: /x}}]}, {host: a.test, rules: [{path: {prefix: /X}, ask: true}]}",
            "{host: a.test, rules: [{path: {exact: /x}}]}",
            ["ask any method a.test/X/..."],
            ["rule any method a.test/X/... if a person allows it"],
        ),
        (
            ASKS,
            "{host: a.test, ask: true}",
            ["rule any method a.test if a person allows it"],
            ["ask any method a.test"],
        ),
    ],
)
def test_lists_rules_that_start_or_stop_asking(
    policy_of: PolicyOf, old: str, new: str, opens: list[str], stops: list[str]
) -> None:
    found = difference(policy_of(f"domains: [{old}]"), policy_of(f"domains: [{new}]"))
    assert (told(found.opens), told(found.stops)) == (opens, stops)


def test_lists_an_entry_that_lost_its_budget(policy_of: PolicyOf) -> None:
    old, new = policy_of("domains: [{host: a.test, budget: {requests: 1/min}}]"), policy_of("domains: [a.test]")
    assert len(difference(old, new).opens) == 1
    assert difference(new, old).opens == ()
