"""The laws of importing: the import allows nothing that was denied, and reports what it no longer allows."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent_sandbox.policy import Effect, Layer, Request, compile_policy, decide, parse_request
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.http.method import STANDARD
from agent_sandbox.policyfile import parse_layer, shipped_services
from agent_sandbox.policytools.importing import old_policy
from agent_sandbox.policytools.importing.old_policy import import_policies
from agent_sandbox.policytools.importing.old_services import old_hosts
from naive_origin import allowed_there

type Entry = dict[str, Any]

HOSTS = ("a.test", "*.a.test", "b.a.test", "*.b.a.test", "c.test")
METHODS = ("GET", "HEAD", "POST", "PROPFIND", "TRACE")

# As in a URL: decoded, this is x: ["+", " "].
ENCODED = {"exact": {"%78": ["%2B", "+"]}}

rules = st.fixed_dictionaries(
    {"schemes": st.sampled_from((["http"], ["https"], ["http", "https"]))},
    optional={
        "methods": st.lists(st.sampled_from(METHODS), min_size=1, max_size=3),
        "path": st.sampled_from(({"prefix": "/a"}, {"prefix": "/a/"}, {"exact": "/a"}, {"exact": "/a/../b"})),
        "query": st.sampled_from(({"exact": {}}, {"exact": {"x": "1"}}, {"exact": {"x": ["1", "2"]}}, ENCODED)),
    },
)
entries = st.one_of(
    st.sampled_from(HOSTS),
    st.fixed_dictionaries(
        {"host": st.sampled_from(HOSTS), "rules": st.lists(rules, min_size=1, max_size=2)},
        optional={"merge_mode": st.just("replace")},
    ),
)
files = st.lists(entries, max_size=4)
requests = st.builds(
    lambda scheme, host, port, method, path, query: parse_request(
        scheme=scheme, host=host, port=port, method=method, target=f"{path}{query}"
    ),
    st.sampled_from(("http", "https")),
    st.sampled_from(("a.test", "x.a.test", "b.a.test", "y.b.a.test", "c.test", "d.test")),
    st.sampled_from((80, 443, 8443)),
    st.sampled_from(METHODS),
    st.sampled_from(("/", "/a", "/ab", "/a/b", "/b")),
    st.sampled_from(("", "?x=1", "?x=2&x=1", "?y=1", "?x=%2B&x=+", "?x=%252B&x=%2B")),
)


@given(files, requests)
def test_an_import_reports_every_request_that_is_decided_differently(
    domains: list[str | Entry], request: Request
) -> None:
    found = import_policies([("f", json.dumps({"domains": domains}))], known={})
    layer = parse_layer(found.text(), name="project", file="p", shown="p", services=())
    here = decide(compile_policy([layer], {}), request).allowed
    there = allowed_there([{"domains": domains}], request)
    told = " ".join(note.what for note in found.notes)
    if here and not there:
        assert request.method == "HEAD"
        assert old_policy.HEAD in told
        assert allowed_there([{"domains": domains}], replace(request, method="GET"))
    if there and not here:
        announced = {
            old_policy.PORTS: request.port not in {80, 443},
            old_policy.METHODS: request.method not in STANDARD,
            "left out:": True,
            "was also every path": request.path == "/ab",
        }
        assert any(words in told and applies for words, applies in announced.items())


SERVICES = dict(shipped_services())
OLD = sorted(old_hosts())
# Paths that our services allow; each is tried with every method.
PATHS = ("/", "/o/r", "/repos/o/r", "/repos/x/y", "/graphql", "/v1/models")
EVERY = ("GET", "HEAD", "POST", "DELETE")
PARTS = st.fixed_dictionaries({"access": st.sampled_from(("read", "readwrite"))})


def wildcards(host: str) -> list[str]:
    """Return a host and every wildcard above it, except those over public suffixes."""
    labels = host.removeprefix("*.").removeprefix(".").split(".")
    return [".".join(labels), *(f"*.{'.'.join(labels[number:])}" for number in range(len(labels) - 1))]


def rules_of(service: str) -> list[Rule]:
    everything = {"git": {"access": "readwrite"}, "api": {"access": "readwrite"}, "web": {"access": "read"}}
    declared = SERVICES[service].spec.declared if service in SERVICES else {}
    options = {name: value for name, value in everything.items() if name in declared}
    layer = layer_of({"services": [{"name": service, **options}]}) if service in SERVICES else layer_of({})
    return [rule for rule in compile_policy([layer], SERVICES).rules.rules if rule.effect is Effect.ALLOW]


def layer_of(value: Entry) -> Layer:
    return parse_layer(json.dumps(value), name="project", file="p", shown="p", services=SERVICES)


def asked_of(service: str) -> list[Request]:
    """Return requests that our service allows, and similar requests."""
    found: dict[Request, None] = {}
    hosts = {rule.conditions.host.sample for rule in rules_of(service)}
    hosts |= {host.removeprefix(".") for host in old_hosts()[service]} | {
        f"x{host}" for host in old_hosts()[service] if host.startswith(".")
    }
    asked = [(host, path, "") for host in hosts for path in PATHS]
    for rule in rules_of(service):
        path = rule.conditions.path.text.replace("**", "x/y").replace("*", "x") if rule.conditions.path else "/"
        asked.append((rule.conditions.host.sample, path, str(rule.conditions.query or "")))
    for host, path, query in asked:
        for method in EVERY:
            request = Request(scheme="https", host=host, port=443, method=method, path=path, query=query)
            found[request] = None
    return list(found)


ASKED = {service: asked_of(service) for service in OLD}
POOL = sorted({wild for service in OLD for asked in ASKED[service] for wild in wildcards(asked.host)})


def opened(files: list[Entry], asked: Iterable[Request]) -> list[str]:
    """Return the requests that were denied and are allowed after the import, except HEAD beside GET."""
    found = import_policies([("f", json.dumps(file)) for file in files], known=SERVICES)
    policy = compile_policy([layer_of(yaml.load(found.text(), Loader=yaml.CSafeLoader))], SERVICES)
    more = [one for one in asked if decide(policy, one).allowed and not allowed_there(files, one)]
    return [
        f"{one.method} {one.url}"
        for one in more
        if not (one.method == "HEAD" and allowed_there(files, replace(one, method="GET"))) and not is_told(files, one)
    ]


def is_told(files: list[Entry], request: Request) -> bool:
    """Return whether the import reports that `git` for single repositories also allows the request."""
    services = [service for file in files for service in file.get("services", ()) if isinstance(service, dict)]
    scoped = any("repos" in service and "git" in service for service in services)
    lfs = "/info/lfs/" in request.path or request.host in LARGE_FILES
    return scoped and (lfs or request.path in {"/o/r/info/refs", "/o/r/git-upload-pack", "/o/r/git-receive-pack"})


LARGE_FILES = {"github-cloud.s3.amazonaws.com", "lfs.github.com", "github-cloud.githubusercontent.com"}
ENTRIES: tuple[Entry, ...] = (
    {"rules": [{"methods": ["GET"], "path": {"exact": "/v1/models"}}]},
    {"rules": [{"methods": ["GET"], "path": {"exact": "/v1/models"}}], "merge_mode": "replace"},
    {"rules": [{"path": {"exact": "/a/../b"}}], "merge_mode": "replace"},
)


@pytest.mark.parametrize("options", [{}, {"readonly": True}], ids=["whole", "readonly"])
@pytest.mark.parametrize("service", OLD)
def test_no_imported_entry_beside_a_service_allows_denied_requests(service: str, options: Entry) -> None:
    named = {"name": service, **options}
    hosts = sorted({wild for asked in ASKED[service] for wild in wildcards(asked.host)})
    for host in hosts:
        for entry in ENTRIES:
            files: list[Entry] = [{"services": [named], "domains": [{"host": host, **entry}]}]
            assert opened(files, ASKED[service]) == [], files
    assert opened([{"services": [named]}], ASKED[service]) == []


scoped = st.fixed_dictionaries(
    {"name": st.just("github"), "repos": st.just(["o/r"])}, optional={"git": PARTS, "api": PARTS}
).filter(lambda service: "git" in service or "api" in service)
whole = st.fixed_dictionaries(
    {"name": st.sampled_from(OLD)}, optional={"readonly": st.booleans(), "merge_mode": st.just("replace")}
)
domains = st.one_of(
    st.sampled_from(POOL),
    st.builds(lambda host, entry: {"host": host, **entry}, st.sampled_from(POOL), st.sampled_from(ENTRIES)),
)
layers = st.fixed_dictionaries(
    {"services": st.lists(st.one_of(scoped, whole), max_size=3), "domains": st.lists(domains, max_size=3)}
)


READING: Entry = {"name": "github", "repos": ["o/r"], "git": {"access": "read"}, "api": {"access": "read"}}


@given(st.lists(layers, min_size=1, max_size=2))
@example([{"services": [{"name": "github"}, READING], "domains": []}])
def test_no_import_of_services_and_entries_allows_denied_requests(files: list[Entry]) -> None:
    named = {service["name"] for file in files for service in file["services"]}
    hosts = {one if isinstance(one, str) else one["host"] for file in files for one in file["domains"]}
    asked = [request for service in named for request in ASKED[service]]
    beside = [one for many in ASKED.values() for one in many if any(host in wildcards(one.host) for host in hosts)]
    assert opened(files, asked + beside) == []
