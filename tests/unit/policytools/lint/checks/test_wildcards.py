import pytest

from agent_sandbox.policytools.lint.checks.wildcards import allow_all, tenant_wildcard, unexplained_wildcard
from policy_texts import Find
from table_tests import each


@each(
    ("host", "what"),
    [
        ("*.pages.dev", "every site that anyone publishes"),
        (".bore.pub", "every tunnel that anyone opens"),
        ("*.s3.amazonaws.com", "every bucket that anyone creates"),
        ("*.amazonaws.com", "every bucket that anyone creates below s3.amazonaws.com"),
        ("*.nip.io", "every name that anyone points anywhere"),
        ("*.cloudfront.net", "the hosts of every customer of the network"),
        ("*.oast.pro", "every inbox that anyone opens"),
    ],
)
def test_finds_wildcards_over_names_that_anyone_can_create(find: Find, host: str, what: str) -> None:
    expected = [(2, f"`{host}` matches {what}")]
    assert find(tenant_wildcard, f'domains:\n  - "{host}" # ours, we think') == expected


@pytest.mark.parametrize("host", ["me.github.io", "*.me.github.io", "*.example.com", "github.io"])
def test_ignores_names_of_one_owner_and_denies(find: Find, host: str) -> None:
    assert find(tenant_wildcard, f'domains: ["{host}"]\ndeny: ["*.pages.dev"]') == []


UNEXPLAINED = """
domains:
  - "*.a.example"
  - "*.b.example"   # the mirrors, by country
  # the shops
  - .c.example

  - {host: "*.d.example", reason: the tracker's parts}
  - host: "*.e.example"
    rules: [{methods: [GET], reason: static files}]
  - f.example       # not what is below
  - .g.example
  - "*.pages.dev"
allow:
  - GET https://h.example/
deny: ["*.i.example"]
"""


def test_finds_wildcards_without_a_reason_or_comment(find: Find) -> None:
    why = "no reason why `{}` has to be a wildcard".format
    assert find(unexplained_wildcard, UNEXPLAINED) == [(3, why("*.a.example")), (12, why(".g.example"))]


def test_finds_allow_all(find: Find) -> None:
    what = "with `allow_all`, this file can allow every host on the internet"
    assert find(allow_all, "domains: [a.test]\nallow_all: true\n") == [(2, what)]
    assert find(allow_all, "domains: [a.test]\n") == []


LISTED = "version: 1\ndomains_file: hosts.txt"


@each(
    ("name", "below"),
    [
        ("amazonaws.com", " below s3.amazonaws.com"),
        ("s3.amazonaws.com", ""),
        ("eu-west-1.amazonaws.com", " below s3.*.amazonaws.com"),
        ("s3.eu-west-1.amazonaws.com", ""),
    ],
)
def test_finds_wildcards_of_a_host_list_over_names_that_anyone_can_create(find: Find, name: str, below: str) -> None:
    expected = [(2, f"`*.{name}` matches every bucket that anyone creates{below}")]
    assert find(tenant_wildcard, LISTED, hosts=f"example.com\n*.{name}\n") == expected


def test_ignores_a_host_list_without_such_a_wildcard(find: Find) -> None:
    hosts = "s3.amazonaws.com\n*.example.com\n.bucket.s3.amazonaws.com\n"
    assert find(tenant_wildcard, LISTED, hosts=hosts) == []


def test_finds_a_host_list_that_has_wildcards_but_no_comment(find: Find) -> None:
    hosts = "*.example.com\n.example.org\nexample.net\n"
    assert find(unexplained_wildcard, LISTED, hosts=hosts) == [(2, "the host list has 2 wildcards without a reason")]
    assert find(unexplained_wildcard, "# what the mirror has\ndomains_file: hosts.txt", hosts=hosts) == []
    assert find(unexplained_wildcard, LISTED, hosts="example.net\n") == []
