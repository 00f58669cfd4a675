import pytest

from agent_sandbox.features.secrets.secret_binding import read_binding
from agent_sandbox.policytools.unset_secrets import Bound
from agent_sandbox.problems import UserError
from table_tests import each


def test_normalises_and_deduplicates_hosts() -> None:
    hosts = ("API.Example.com.", "api.example.com", "bücher.example", "192.0.2.1", "[2001:DB8::1]")
    expected = Bound(name="a.b", hosts=("api.example.com", "xn--bcher-kva.example", "192.0.2.1", "2001:db8::1"))
    assert read_binding("a.b", hosts) == expected


@each(
    ("host", "problem"),
    [
        ("*", "`*` is a wildcard"),
        ("*.example.com", "`*.example.com` is a wildcard"),
        (".example.com", "`.example.com` is a wildcard"),
        ("https://example.com", "'https://example.com' is a URL, not a host"),
        ("example.com/x", "'example.com/x' has a path"),
        ("example.com:443", "'example.com:443' is more than a host"),
        ("127.1", "an address that programs read differently: '127.1'"),
        ("", "not a host name: ''"),
    ],
)
def test_rejects_anything_but_a_single_host(host: str, problem: str) -> None:
    with pytest.raises(UserError) as caught:
        read_binding("a", [host])
    (found,) = caught.value.problems
    assert found.where == "--host"
    assert found.what.partition(", but")[0] == problem
    assert found.hint


def test_reports_all_problems_at_once() -> None:
    with pytest.raises(UserError) as caught:
        read_binding("a b", ["x y", "ok.test", "*.z.test"])
    assert [(one.where, one.what) for one in caught.value.problems] == [
        ("NAME", "not a secret name: 'a b'"),
        ("--host", "'x y' has characters that are not allowed in a host"),
        ("--host", "`*.z.test` is a wildcard, but a secret is bound to single hosts"),
    ]
