"""The laws of importing: nothing that the old file denied is allowed, and what it allowed and we deny was announced."""

import json
from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.policy import Request, compile_policy, decide, parse_request
from agent_sandbox.policy.method import STANDARD
from agent_sandbox.policy.query import parameters_of
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.policytools.importing import oldpolicy
from agent_sandbox.policytools.importing.oldpolicy import import_policies

type Entry = dict[str, Any]

HOSTS = ("a.test", "*.a.test", "b.a.test", "*.b.a.test", "c.test")
METHODS = ("GET", "HEAD", "POST", "PROPFIND", "TRACE")

rules = st.fixed_dictionaries(
    {"schemes": st.sampled_from((["http"], ["https"], ["http", "https"]))},
    optional={
        "methods": st.lists(st.sampled_from(METHODS), min_size=1, max_size=3),
        "path": st.sampled_from(({"prefix": "/a"}, {"prefix": "/a/"}, {"exact": "/a"}, {"exact": "/a/../b"})),
        "query": st.sampled_from(({"exact": {}}, {"exact": {"x": "1"}}, {"exact": {"x": ["1", "2"]}})),
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
    st.sampled_from(("", "?x=1", "?x=2&x=1", "?y=1")),
)


def allowed_there(domains: Iterable[str | Entry], request: Request) -> bool:
    """Decide as the older proxy did: of all hosts that match, the most specific one alone counts."""
    table: dict[str, list[Entry]] = {}
    for entry in domains:
        host, those = (entry, [{}]) if isinstance(entry, str) else (entry["host"], entry["rules"])
        kept = [] if isinstance(entry, dict) and "merge_mode" in entry else table.get(host, [])
        table[host] = [*kept, *those]
    fitting = [host for host in table if _is_of(request.host, host)]
    best = min(fitting, key=lambda host: (host.startswith("*"), -len(host)), default=None)
    return best is not None and any(_matches(rule, request) for rule in table[best])


def _is_of(host: str, pattern: str) -> bool:
    return f".{host}".endswith(pattern[1:]) if pattern.startswith("*") else host == pattern


def _matches(rule: Entry, request: Request) -> bool:
    path = rule.get("path", {})
    query = rule.get("query", {}).get("exact")
    wanted = sorted((name, one) for name, values in (query or {}).items() for one in values)
    return (
        request.scheme in rule.get("schemes", ("http", "https"))
        and request.method in rule.get("methods", METHODS)
        and request.path.startswith(path.get("prefix", ""))
        and request.path == path.get("exact", request.path)
        and (query is None or sorted(parameters_of(request.query)) == wanted)
    )


@given(files, requests)
def test_an_import_opens_nothing_and_announces_what_it_closes(domains: list[str | Entry], request: Request) -> None:
    found = import_policies([("f", json.dumps({"domains": domains}))], known=())
    layer = parse_layer(found.text(), name="project", file="p", shown="p", services=())
    here = decide(compile_policy([layer], {}), request).allowed
    there = allowed_there(domains, request)
    told = " ".join(note.what for note in found.notes)
    if here and not there:
        assert request.method == "HEAD"
        assert oldpolicy.HEAD in told
        assert allowed_there(domains, request._replace(method="GET"))
    if there and not here:
        announced = {
            oldpolicy.PORTS: request.port not in {80, 443},
            oldpolicy.METHODS: request.method not in STANDARD,
            "left out:": True,
            "was also every path": request.path == "/ab",
        }
        assert any(words in told and applies for words, applies in announced.items())
