"""Any request and any policy file is handled in bounded time, which grows no faster than the input's length."""

import time
from collections.abc import Callable
from contextlib import suppress

from agent_sandbox.policy import Ambiguous, parse_request
from agent_sandbox.policy.http.bounds import MAX_TARGET
from agent_sandbox.policy.match.path_pattern import PathKind, parse_path_pattern
from agent_sandbox.policyfile import parse_layer
from agent_sandbox.problems import UserError
from table_tests import each

# Of processor time: far more than any of them takes, and far less than a runaway, which takes minutes.
SECONDS = 2.0
NEST = 50_000


def within_bounds(answer: Callable[[], object]) -> None:
    start = time.process_time()
    with suppress(Ambiguous, UserError):  # these are answers, too
        answer()
    assert time.process_time() - start < SECONDS


@each("glob", ["/**/a*a/**/a*a/**", "/**/a/**/a/**/a/**/b", "/a*a*a*a*a*a*a*b", "/**/**/**/**"])
@each("unit", ["/a", "a", "/aa", "/ab"])
def test_matching_a_glob_with_the_longest_path_is_fast(glob: str, unit: str) -> None:
    pattern = parse_path_pattern(PathKind.GLOB, glob)
    within_bounds(lambda: pattern.matches("/" + (unit * MAX_TARGET)[: MAX_TARGET - 1]))


@each("unit", ["a", "/a", "/", ".", "/..", "%2", "%25", "%2525", ";", "/;a", "=..", "&", "?", "\\", "\0"])
def test_parsing_the_longest_request_target_is_fast(unit: str) -> None:
    target = "/" + (unit * MAX_TARGET)[: MAX_TARGET - 1]
    within_bounds(lambda: parse_request(scheme="https", host="a.test", port=443, method="GET", target=target))


@each("unit", ["a", "a.", "-", "1.", "0x", "xn--", "é", ":", "[", "1:"])
def test_parsing_a_very_long_host_is_fast(unit: str) -> None:
    host = unit * NEST
    within_bounds(lambda: parse_request(scheme="https", host=host, port=443, method="GET", target="/"))


@each(
    "text",
    [
        "[" * NEST,
        "{a: " * NEST,
        "- " * NEST,
        "? " * NEST,
        "a" * NEST,
        "domains: [" + "a.test, " * 5000 + "]",
        "domains: ['" + "*." * NEST + "']",
        "&a " * NEST,
        "!" * NEST,
        "'" * NEST,
        "domains:\n" + "  - '*'\n" * 5000,
        "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n",
    ],
)
def test_parsing_a_malicious_policy_file_is_fast(text: str) -> None:
    within_bounds(lambda: parse_layer(text, name="project", file="p", shown="p", services=()))
