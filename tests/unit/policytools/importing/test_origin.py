from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policytools.importing.origin import Origin, narrower
from agent_sandbox.policytools.importing.records import Imported, Record, conditions_of
from table_tests import each


def is_below(host: str, wide: str) -> bool:
    return wide.startswith(".") and host != wide and f".{host.removeprefix('.')}".endswith(wide)


NAMES = st.lists(st.sampled_from("ab"), min_size=1, max_size=4)
hosts = st.lists(st.sampled_from(["", "."]).flatmap(lambda dot: NAMES.map(lambda labels: dot + ".".join(labels))))


@given(hosts)
def test_finds_the_same_narrower_hosts_as_a_pairwise_comparison(names: list[str]) -> None:
    found = narrower([Record(host=name, where="") for name in names])
    expected = {wide: {name for name in names if is_below(name, wide)} for wide in names}
    assert {wide: {*found.get(wide, {})} for wide in names} == expected


def record(host: str, *methods: str) -> Record:
    made = Record(host=host, where="")
    made.add({"methods": list(methods)} if methods else None, "", Imported())
    return made


RECORDS = (record(".a.test"), record("b.a.test", "GET", "HEAD"), record(".c.a.test", "POST"), record("d.test", "PUT"))


@each(
    ("host", "governing"),
    [
        ("b.a.test", ["b.a.test"]),
        ("a.test", [".a.test"]),
        ("x.a.test", [".a.test"]),
        ("c.a.test", [".c.a.test"]),
        ("x.c.a.test", [".c.a.test"]),
        ("*.c.a.test", [".c.a.test"]),
        (".b.a.test", [".a.test"]),
        ("*.a.test", [".a.test"]),
        ("*.test", []),
        ("e.test", []),
    ],
)
def test_the_most_specific_matching_host_governs(host: str, governing: list[str]) -> None:
    assert [one.host for one in Origin(RECORDS).governing(parse_host_pattern(host))] == governing


@each(
    ("entry", "refused"),
    [
        ({"host": "b.a.test", "rules": [{"methods": ["GET"]}]}, False),
        ({"host": "b.a.test", "rules": [{"methods": ["POST"]}]}, True),
        ({"host": "x.a.test", "rules": [{"methods": ["POST"]}]}, False),
        ({"host": ".b.a.test", "rules": [{"methods": ["GET"]}]}, False),
        ({"host": ".b.a.test", "rules": [{"methods": ["POST"]}]}, True),
        ({"host": "*.b.a.test", "rules": [{"methods": ["POST"]}]}, False),
        ({"host": ".a.test", "rules": [{"methods": ["POST"]}]}, True),
        ({"host": "*.c.a.test", "rules": [{"methods": ["POST"]}]}, False),
        ({"host": "e.test", "rules": [{"methods": ["POST"]}]}, True),
    ],
)
def test_refuses_rules_that_the_old_policy_could_have_denied(entry: object, refused: bool) -> None:  # noqa: FBT001 - a case
    (asked,) = conditions_of([entry])
    assert Origin(RECORDS).refuses(asked) is refused


def test_names_the_narrower_host_that_a_wildcard_would_widen() -> None:
    (asked,) = conditions_of([".a.test"])
    assert Origin(RECORDS).refused_below(asked) == "b.a.test"
