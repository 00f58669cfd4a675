from agent_sandbox.policy.match.host_pattern import HostPattern, Reach, parse_host_pattern
from agent_sandbox.policytools.lint.lists import (
    below_suffix,
    buckets,
    host_like,
    may_be_listed,
    tenants,
    tenants_below,
    uploads,
)
from table_tests import each


@each(
    ("pattern", "suffix", "expected"),
    [
        ("*.github.io", "github.io", "yes"),
        (".github.io", "github.io", "yes"),
        ("*.amazonaws.com", "s3.amazonaws.com", "yes"),
        ("*.s3.eu-west-1.amazonaws.com", "s3.*.amazonaws.com", "yes"),
        ("*.eu-west-1.amazonaws.com", "s3.*.amazonaws.com", "yes"),
        ("*.oss-cn-hangzhou.aliyuncs.com", "oss-*.aliyuncs.com", "yes"),
        ("*.ecs.aliyuncs.com", "oss-*.aliyuncs.com", "no"),
        ("*.me.github.io", "github.io", "no"),
        ("me.github.io", "github.io", "no"),
        ("github.io", "github.io", "no"),
        ("*.mygithub.io", "github.io", "no"),
        ("*.ec2.eu-west-1.amazonaws.com", "s3.*.amazonaws.com", "no"),
    ],
)
def test_below_suffix_finds_only_wildcards_over_several_tenants(pattern: str, suffix: str, expected: str) -> None:
    assert below_suffix(parse_host_pattern(pattern), suffix) == (expected == "yes")


@each(
    ("pattern", "host", "expected"),
    [
        ("file.io", "file.io", "yes"),
        ("*.file.io", "file.io", "no"),
        (".file.io", "file.io", "yes"),
        ("s3.eu-west-1.amazonaws.com", "s3.*.amazonaws.com", "yes"),
        ("s3-eu-west-1.amazonaws.com", "s3-*.amazonaws.com", "yes"),
        ("s3.amazonaws.com", "s3.*.amazonaws.com", "no"),
        ("bucket.s3.eu-west-1.amazonaws.com", "s3.*.amazonaws.com", "no"),
    ],
)
def test_host_like_finds_hosts_and_patterns_that_include_a_listed_host(pattern: str, host: str, expected: str) -> None:
    assert bool(host_like(parse_host_pattern(pattern), host)) == (expected == "yes")


def test_every_listed_name_is_a_canonical_host_and_unique() -> None:
    suffixes = [suffix for group in tenants() for suffix in group.suffixes]
    hosts = [host for group in uploads() for host in group.hosts]
    stores = [host for of_provider in buckets().values() for host in of_provider]
    for names in (suffixes, hosts, stores):
        plain = [name.replace("*", "x") for name in names]
        assert [name for name in plain if str(parse_host_pattern(name)) != name] == []
        assert len(set(names)) == len(names) > 10


def test_every_tenant_group_has_texts_and_uploads_are_asked_about_writes_or_any() -> None:
    assert [group for group in tenants() if not (group.what and group.why and group.fix)] == []
    assert {group.asked for group in uploads() if group.what and group.why} == {"writes", "any"}


def spelled(name: str) -> set[str]:
    """Return host names that match a listed name, their parents, and names that almost match."""
    names = {name.replace("*", star) for star in ("eu", "", "a.b")}
    return {"", *names, *(f"x{one}" for one in names), *(one.partition(".")[2] for one in names)}


def test_tenants_below_finds_the_same_as_a_comparison_with_each_suffix() -> None:
    every = [(group, suffix) for group in tenants() for suffix in group.suffixes]
    for name in {spelling for _, suffix in every for spelling in spelled(suffix)}:
        for pattern in (HostPattern(reach=reach, name=name) for reach in (Reach.EXACT, Reach.BELOW)):
            below = (one for one in every if below_suffix(pattern, one[1]))
            assert tenants_below(pattern) == min(below, key=lambda one: one[1].count("."), default=None)


def test_may_be_listed_is_true_for_every_pattern_that_host_like_finds() -> None:
    hosts = {host for named in (*buckets().values(), *(group.hosts for group in uploads())) for host in named}
    for pattern in (HostPattern(reach=Reach.EXACT, name=name) for host in hosts for name in spelled(host)):
        assert may_be_listed(pattern) or not any(host_like(pattern, host) for host in hosts)
    told = [may_be_listed(parse_host_pattern(text)) for text in ("file.io", "*.a.test", "a.test")]
    assert told == [True, True, False]
