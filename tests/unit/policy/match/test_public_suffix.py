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
def test_below_a_public_suffix_anybody_registers_names(name: str) -> None:
    assert is_public_suffix(name)


@each(
    "name", ["example.com", "city.kobe.jp", "www.ck", "me.github.io", "a.co.uk", "xn--bcher-kva.example", "my_zone.com"]
)
def test_below_a_registered_name_only_its_owner_does(name: str) -> None:
    assert not is_public_suffix(name)


@pytest.mark.parametrize("name", ["s3.amazonaws.com", "blob.core.windows.net", "pages.dev", "herokuapp.com"])
def test_clouds_are_left_to_lint(name: str) -> None:
    assert not is_public_suffix(name)


@pytest.mark.parametrize("pattern", ["*.com", ".co.uk", "*.github.io", "*.xn--p1ai"])
def test_a_wildcard_over_strangers_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidValue) as invalid:
        require_no_public_suffix(parse_host_pattern(pattern))
    what = f"`{pattern}` matches every name that anyone registers below `{pattern.lstrip('*.')}`"
    assert (invalid.value.what, invalid.value.hint) == (what, "name the hosts you need")


@each("pattern", ["com", "github.io", "*.example.com", ".me.github.io", "203.0.113.7"])
def test_one_host_and_the_names_of_one_owner_are_fine(pattern: str) -> None:
    require_no_public_suffix(parse_host_pattern(pattern))


def test_the_list_is_read_once() -> None:
    _suffixes.cache_clear()
    assert [is_public_suffix(name) for name in ("com", "github.io", "a.test")] == [True, True, False]
    assert _suffixes.cache_info().misses == 1
