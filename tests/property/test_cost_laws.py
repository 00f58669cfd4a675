"""The work of one decision, counted in steps: the same for any number of rules with the same condition."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.policy import Policy, Request, allows, awaits_operation, decide, parse_request
from agent_sandbox.policy.engine.nearest import MAX_COMPARED
from agent_sandbox.policy.engine.rule import Rule
from agent_sandbox.policy.http import headers, query
from agent_sandbox.policy.http import path as path_module
from agent_sandbox.policy.http.bounds import MAX_ELEMENTS, MAX_FIELDS, MAX_PARAMETERS, MAX_SEGMENTS
from agent_sandbox.policy.match import glob
from agent_sandbox.policy.match.glob import Segment, glob_matches, segment_matches, split_glob
from policy_strategies import Entry, policy, requests, specs
from table_tests import each

QUERY = "&".join(f"%61{number}=%C3%A9" for number in range(MAX_PARAMETERS))
LISTS = [("x-list", "a," * (MAX_ELEMENTS // 2)), *[(f"x-{number}", "b") for number in range(MAX_FIELDS // 2)]]
TWICE = 2  # a name and a value


@contextmanager
def counting(owner: object, name: str) -> Iterator[list[None]]:
    """Count the calls of a function."""
    calls: list[None] = []
    function = getattr(owner, name)

    def counted(*arguments: object) -> object:
        calls.append(None)
        return function(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, counted)
        yield calls


def steps(owner: object, name: str, ask: Callable[[], object]) -> int:
    with counting(owner, name) as calls:
        ask()
    return len(calls)


def asked(target: str, fields: list[tuple[str, str]] | None = None) -> Request:
    return parse_request(
        scheme="https", host="a.test", port=443, method="GET", target=target, headers=tuple(fields or ())
    )


def denying(number: int, condition: Callable[[int], Entry]) -> Policy:
    rules = [condition(each) for each in range(number)]
    return policy({"domains": [{"host": "a.test"}], "deny": [{"host": "a.test", "rules": rules}]})


def allowing(number: int, condition: Callable[[int], Entry]) -> Policy:
    return policy({"domains": [{"host": "a.test", "rules": [condition(each) for each in range(number)]}], "deny": []})


def query_rule(number: int) -> Entry:
    return {"query": {"exact": {f"n{number}": ["1"] * MAX_PARAMETERS}}}


def header_rule(number: int) -> Entry:
    return {"headers": {"x-list": f"value {number}"}}


@each("of", [denying, allowing])
@each("number", [1, 40])
def test_decodes_a_query_once_for_any_number_of_rules(
    of: Callable[[int, Callable[[int], Entry]], Policy], number: int
) -> None:
    rules, request = of(number, query_rule), asked(f"/?{QUERY}{of.__name__}{number}")
    assert steps(query, "_decoded", lambda: decide(rules, request)) == TWICE * MAX_PARAMETERS
    assert steps(query, "_decoded", lambda: decide(rules, request)) == 0


@each("number", [1, 40])
def test_reads_a_header_once_for_any_number_of_rules(number: int) -> None:
    rules, request = denying(number, header_rule), asked("/", LISTS)
    assert steps(headers, "_widely", lambda: decide(rules, request)) == 1
    assert steps(headers, "_widely", lambda: decide(rules, request)) == 0


@each("text", ["/**/a*a/**/a*a/**", "/**/a/**/a/**/a/**/b", "/**/a/a/a/b/**", "/**/**/**/**", "/**/*/**/*b"])
@each("unit", ["/a", "/aa", "/ab", "/"])
def test_matching_a_glob_takes_at_most_its_length_times_the_path_length_in_steps(text: str, unit: str) -> None:
    of, path = split_glob(text), unit * MAX_SEGMENTS
    assert steps(glob, "segment_matches", lambda: glob_matches(of, path)) <= len(of) * (MAX_SEGMENTS + 1)


def test_a_denial_compares_a_bounded_number_of_rules() -> None:
    rules = allowing(1_000, lambda number: {"methods": ["POST"], "path": {"exact": f"/p/{number}"}})
    request = asked("/p/900")
    assert steps(Rule, "differences", lambda: decide(rules, request)) <= MAX_COMPARED + 1
    # The rule for this path is found even among so many rules.
    assert decide(rules, request).reason.startswith("host a.test is allowed, method GET is not: ")


def test_awaits_operation_computes_no_differences_between_rule_and_request() -> None:
    rules = allowing(100, lambda number: {"path": {"exact": f"/p/{number}"}, "graphql": {"query": ["a"]}})
    assert steps(Rule, "differences", lambda: awaits_operation(rules, asked("/other"))) == 0


@given(specs, requests)
def test_allows_agrees_with_decide(spec: Entry, request: Request) -> None:
    assert allows(policy(spec), request) is decide(policy(spec), request).allowed


SEGMENTS = st.sampled_from(["a", "b", "ab", "aab", ""])
GLOBS = st.lists(st.sampled_from(["a", "ab", "*", "a*", "*b", "a*b", "**", ""]), min_size=1, max_size=6)


@given(
    GLOBS.map(lambda parts: "/" + "/".join(parts)).filter(lambda text: "//" not in text and text.count("*") <= 8),
    st.lists(SEGMENTS, max_size=7).map(lambda parts: "/" + "/".join(parts)),
)
def test_a_glob_matches_like_an_exhaustive_search(text: str, path: str) -> None:
    assert glob_matches(split_glob(text), path) is every_way(split_glob(text), tuple(path.split("/")))


def every_way(of: tuple[Segment, ...], segments: tuple[str, ...]) -> bool:
    """Match a glob as the documentation describes it, without regard to speed."""
    if not of:
        return not segments
    if of[0] != glob.ANY_DEPTH:
        return bool(segments) and segment_matches(of[0], segments[0]) and every_way(of[1:], segments[1:])
    least = 1 if len(of) == 1 else 0
    return any(every_way(of[1:], segments[count:]) for count in range(least, len(segments) + 1))


# Each behaviour of servers changes it, and each of its runs has to be folded.
TANGLED = "/%2541;q/b::$D/c./" + "%C3%89a" * 1100 + "x/"


@pytest.mark.parametrize("count", [1, 20, 200])
def test_a_tangled_path_is_read_once_however_many_denies_there_are(count: int) -> None:
    denies = [{"host": "a.test", "rules": [{"path": {"glob": f"/**/x{number}"}} for number in range(count)]}]
    made = policy({"domains": ["a.test"], "deny": denies})
    request = parse_request(scheme="https", host="a.test", port=443, method="GET", target=TANGLED)
    path_module.served_as.cache_clear()
    path_module.in_lower_case.cache_clear()
    # Four readings of the path, and each decoded again.
    assert steps(path_module, "_folded", lambda: decide(made, request)) <= 8 * 1100


def test_a_deny_looks_at_each_character_of_a_long_run_of_dots_once() -> None:
    # A search that tries the run from each of its dots would reach the time limit of the test.
    run = "/" + "." * 1_000_000 + "x"
    assert path_module.served_as((run,)) == (run,)
