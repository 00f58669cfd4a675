from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.match.host_pattern import HostPattern, Reach, parse_host_pattern
from table_tests import each

VECTORS: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "vectors/host_patterns.yaml").read_text("utf-8")
)


@each("vector", VECTORS)
def test_matches_exactly_the_hosts_in_the_vectors(vector: dict[str, Any]) -> None:
    if "invalid" in vector:
        with pytest.raises(InvalidValue) as invalid:
            parse_host_pattern(vector["pattern"])
        assert f"{invalid.value.what}; {invalid.value.hint}" == vector["invalid"]
        return
    pattern = parse_host_pattern(vector["pattern"])
    hosts = [*vector["takes"], *vector["leaves"]]
    assert [host for host in hosts if pattern.matches(host)] == vector["takes"]


def test_shows_a_pattern_in_canonical_form() -> None:
    patterns = [parse_host_pattern(text) for text in ("*.Example.COM", ".bücher.example", "a.test.")]
    assert [str(pattern) for pattern in patterns] == ["*.example.com", ".xn--bcher-kva.example", "a.test"]


def test_parses_different_spellings_to_the_same_pattern() -> None:
    assert parse_host_pattern("*.A.test.") == HostPattern(reach=Reach.BELOW, name="a.test")


def test_a_network_matches_its_addresses_except_cloud_metadata() -> None:
    pattern = HostPattern(reach=Reach.NETWORK, name="100.64.0.0/10")
    hosts = ("100.64.0.1", "100.127.255.255", "100.100.100.200", "100.128.0.1", "fd00::1", "100.64.test", "test")
    assert (str(pattern), [host for host in hosts if pattern.matches(host)]) == ("100.64.0.0/10", list(hosts[:2]))


@pytest.mark.parametrize(
    ("pattern", "sample"),
    [("a.test", "a.test"), ("*.a.test", "x.a.test"), (".a.test", "a.test"), ("*", "x.example")],
)
def test_the_sample_of_a_pattern_matches_the_pattern(pattern: str, sample: str) -> None:
    read = parse_host_pattern(pattern)
    assert read.sample == sample
    assert read.matches(sample)


@each(
    ("text", "containing"),
    [
        ("a.test", ["a.test", ".a.test", "*.test", ".test", "*"]),
        ("*.a.test", ["*.a.test", ".a.test", "*.test", ".test", "*"]),
        (".a.test", [".a.test", "*.test", ".test", "*"]),
        ("*", ["*"]),
        ("203.0.113.7", ["203.0.113.7"]),
    ],
)
def test_lists_every_pattern_that_contains_a_pattern(text: str, containing: list[str]) -> None:
    assert [str(one) for one in parse_host_pattern(text).containing()] == containing
