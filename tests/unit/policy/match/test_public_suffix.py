import pytest

from agent_sandbox.policy.errors import InvalidValue
from agent_sandbox.policy.match.host_pattern import parse_host_pattern
from agent_sandbox.policy.match.public_suffix import _suffixes, is_public_suffix, require_no_public_suffix
from table_tests import each


@each(
    "name",
    [
        "com",
        "uk",
        "co.uk",
        "com.br",
        "kobe.jp",
        "x.kobe.jp",
        "anything.ck",
        "xn--p1ai",
        "xn--55qx5d.cn",
        "github.io",
        "gitlab.io",
        "blogspot.com",
        "never-registered",
    ],
)
def test_recognises_public_suffixes(name: str) -> None:
    assert is_public_suffix(name)


@each(
    "name", ["example.com", "city.kobe.jp", "www.ck", "me.github.io", "a.co.uk", "xn--bcher-kva.example", "my_zone.com"]
)
def test_a_registered_name_is_not_a_public_suffix(name: str) -> None:
    assert not is_public_suffix(name)


@pytest.mark.parametrize("name", ["s3.amazonaws.com", "blob.core.windows.net", "pages.dev", "herokuapp.com"])
def test_cloud_domains_are_not_public_suffixes(name: str) -> None:
    assert not is_public_suffix(name)


@pytest.mark.parametrize("pattern", ["*.com", ".co.uk", "*.github.io", "*.xn--p1ai"])
def test_rejects_a_wildcard_over_a_public_suffix(pattern: str) -> None:
    with pytest.raises(InvalidValue) as invalid:
        require_no_public_suffix(parse_host_pattern(pattern))
    what = f"`{pattern}` matches every name that anyone registers below `{pattern.lstrip('*.')}`"
    assert (invalid.value.what, invalid.value.hint) == (what, "name the hosts you need")


@each("pattern", ["com", "github.io", "*.example.com", ".me.github.io", "203.0.113.7"])
def test_accepts_single_hosts_and_wildcards_below_registered_names(pattern: str) -> None:
    require_no_public_suffix(parse_host_pattern(pattern))


def test_reads_the_list_once() -> None:
    _suffixes.cache_clear()
    assert [is_public_suffix(name) for name in ("com", "github.io", "a.test")] == [True, True, False]
    assert _suffixes.cache_info().misses == 1
