"""The law of paths: a deny and a question cover every spelling that some server reads as the path they name.

An allow stays exact: a spelling that it does not name is not allowed.
"""

from collections.abc import Callable, Sequence
from itertools import product

from agent_sandbox.policy import Ambiguous, Decision, Effect, decide, parse_request
from agent_sandbox.policy.decision import Cause
from agent_sandbox.policy.http.path import BEHAVIOURS
from policy_strategies import Entry, policy
from table_tests import each

# How a client spells a path for a server with each behaviour.
SPELLINGS: dict[str, Callable[[str], str]] = {
    "decode it again": lambda path: f"{path[:-1]}%25{ord(path[-1]):02x}",
    "decode it again in the middle": lambda path: f"/%25{ord(path[1]):02x}{path[2:]}",
    "drop `;` parameters": lambda path: f"{path};x=1",
    "drop a stream name (`::$DATA`)": lambda path: f"{path}::$DATA",
    "drop a named stream": lambda path: f"{path}:$I30:$INDEX_ALLOCATION",
    "drop dots and spaces at the end of a segment": lambda path: f"{path}.",
    "drop spaces": lambda path: f"{path}%20",
    "drop several": lambda path: f"{path}%20.%20",
    "drop them in the middle": lambda path: path.replace("/", "./", 2).removeprefix("."),
    "ignore a slash at the end": lambda path: f"{path}/",
    "end it at an encoded `?`, `#` or NUL": lambda path: f"{path}%253Fx",
    "end it at a NUL": lambda path: f"{path}%2500.txt",
    "ignore case": str.upper,
    "merge slashes": lambda path: path.replace("/", "//"),
    "write none": lambda path: path,
}
EVERY: Entry = {"path": {"prefix": "/"}}
RULES = (
    {"exact": "/v1/transfer"},
    {"exact": "/v1/transfer/"},
    {"prefix": "/v1/transfer"},
    {"prefix": "/v1/transfer/"},
    {"glob": "/*/transfer"},
    {"glob": "/v1/tr*r"},
    {"glob": "/**/transfer/"},
)


def decided(path: str, domains: Sequence[Entry], deny: Sequence[Entry] = ()) -> Decision | None:
    """Return the decision by these rules; None for a request that is refused as ambiguous."""
    try:
        request = parse_request(scheme="https", host="a.test", port=443, method="POST", target=path)
    except Ambiguous:
        return None
    spec = {"domains": [{"host": "a.test", "rules": [*domains]}]}
    return decide(policy(spec | ({"deny": [{"host": "a.test", "rules": [*deny]}]} if deny else {})), request)


SPELLED = [
    (rule, one, other)
    for rule, one, other in product(RULES, SPELLINGS, SPELLINGS)
    # No server decodes a path whose percent-encoded digits are themselves encoded.
    if not (one == other and one.startswith(("decode", "end")))
]


def spelled(one: str, other: str) -> str:
    return SPELLINGS[other](SPELLINGS[one]("/v1/transfer"))


def test_each_behaviour_of_servers_has_a_spelling() -> None:
    assert {one.name for one in BEHAVIOURS} <= {*SPELLINGS}


@each(("rule", "one", "other"), SPELLED)
def test_a_deny_covers_every_spelling_of_its_path(rule: dict[str, str], one: str, other: str) -> None:
    found = decided(spelled(one, other), [EVERY], [{"path": rule}])
    assert found is None or found.effect is Effect.DENY, spelled(one, other)


@each(("rule", "one", "other"), SPELLED)
def test_a_question_covers_every_spelling_of_its_path(rule: dict[str, str], one: str, other: str) -> None:
    found = decided(spelled(one, other), [EVERY, {"path": rule, "ask": True}])
    assert found is None or (found.effect, found.cause) == (Effect.DENY, Cause.ASK), spelled(one, other)


@each(("one", "other"), [*product(SPELLINGS, SPELLINGS)])
def test_an_exact_allow_covers_no_other_spelling(one: str, other: str) -> None:
    found = decided(path := spelled(one, other), [{"path": {"exact": "/v1/transfer"}}])
    assert (found is not None and found.allowed) is (path == "/v1/transfer")


@each(
    "path",
    [
        "/secret.txt::$DATA",
        "/admin.",
        "/%2561dmin",
        "/admin%20",
        "/ADMIN/",
        "/admin%20/x",
        "/x/..%20/admin",
        "/x/%25252e%25252e/admin",
        "/x%25252Fadmin",
        "/admin%23x",
    ],
)
def test_a_deny_among_many_rules_covers_every_spelling(path: str) -> None:
    others = [{"path": {"exact": f"/{number}"}} for number in range(20)]
    found = decided(path, [EVERY], [{"path": {"exact": "/secret.txt"}}, {"path": {"prefix": "/admin"}}, *others])
    assert found is None or found.effect is Effect.DENY
