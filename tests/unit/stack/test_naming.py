from ipaddress import IPv4Address, IPv4Network, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.stack.naming import POOL, SIZE, Addresses, addresses, beside_addresses, slug, stack_name
from table_tests import each

paths = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).map(lambda name: f"/{name}")


@each(
    ("title", "expected"),
    [
        ("app", "app"),
        ("My App", "my-app"),
        ("-x-", "x"),
        ("Jürgen's", "j-rgen-s"),
        ("日本", "project"),
        ("", "project"),
        ("a" * 100, "a" * 40),
        ("$(id)`{{x}}`", "id-x"),
    ],
)
def test_slug_converts_a_title_to_a_valid_name(title: str, expected: str) -> None:
    assert slug(title) == expected


def test_directories_of_the_same_name_get_different_stack_names_and_networks() -> None:
    assert stack_name("app", "/a/app") != stack_name("app", "/b/app")
    assert addresses("/a/app") != addresses("/b/app")


def test_names_and_addresses_of_a_path_never_change() -> None:
    assert stack_name("app", "/home/me/app") == "app-fd865ce8"
    assert addresses("/home/me/app") == Addresses(
        subnet="10.140.157.176/28", proxy="10.140.157.178", agent="10.140.157.179"
    )


@given(paths)
def test_every_address_is_in_its_subnet_and_every_subnet_in_the_pool(path: str) -> None:
    where = addresses(path)
    subnet = ip_network(where.subnet)
    assert isinstance(subnet, IPv4Network)
    assert subnet.subnet_of(IPv4Network("10.128.0.0/9"))
    hosts = list(subnet.hosts())
    assert [ip_address(where.proxy), ip_address(where.agent)] == hosts[1:3]


@given(st.text(), paths)
def test_every_stack_name_is_valid_for_compose(title: str, path: str) -> None:
    name = stack_name(title, path)
    assert name[0].isalnum()
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_a_path_that_is_not_utf_8_gets_a_stack_name() -> None:
    assert stack_name("x", "/x\udcff").startswith("x-")


@given(paths)
def test_services_have_other_addresses_than_the_sandbox(path: str) -> None:
    where = beside_addresses(path, [f"s{number}" for number in range(10)])
    subnet = IPv4Network(where.subnet)
    hosts = [where.agent, *where.services.values()]
    assert subnet.subnet_of(IPv4Network("10.128.0.0/9"))
    assert not subnet.overlaps(IPv4Network(addresses(path).subnet))
    assert [IPv4Address(host) for host in hosts] == list(subnet.hosts())[1:12]  # the first is the gateway's


@pytest.mark.parametrize(("number", "after"), [(0, 1), ((1 << 19) - 1, 0)])
def test_services_get_the_next_subnet_if_both_would_be_the_same(
    monkeypatch: pytest.MonkeyPatch, number: int, after: int
) -> None:
    monkeypatch.setattr("agent_sandbox.stack.naming._hash", lambda _: bytes(4) + number.to_bytes(4) * 2)
    assert addresses("/p").subnet == f"{POOL + number * SIZE}/28"
    assert beside_addresses("/p", ()).subnet == f"{POOL + after * SIZE}/28"
