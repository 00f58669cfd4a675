import typing

from agent_sandbox.policy.match.credential_kind import KINDS, KindName
from table_tests import each


def test_each_kind_has_one_row() -> None:
    assert tuple(KINDS) == ("bearer", "basic", "raw", "query")
    assert sorted(name for name, kind in KINDS.items() if not kind.in_query) == sorted(typing.get_args(KindName))


@each(
    ("kind", "written"),
    [
        ("bearer", "Bearer the secret"),
        ("basic", "Basic Ym90OnRoZSBzZWNyZXQ="),
        ("raw", "the secret"),
        ("query", "the%20secret"),
    ],
)
def test_each_kind_writes_the_secret_in_its_form(kind: str, written: str) -> None:
    assert KINDS[kind].write("the secret", "bot") == written


@each(
    ("kind", "field", "credential"),
    [
        ("bearer", "Bearer abc", "abc"),
        ("bearer", "bEARER  abc ", "abc"),
        ("bearer", "token abc", "abc"),
        ("bearer", "Basic abc", ""),
        ("bearer", "abc", ""),
        ("bearer", "", ""),
        ("basic", "basic Ym90OmE6Yg==", "a:b"),
        ("basic", "Basic Ym90", ""),
        ("basic", "Basic ???", ""),
        ("basic", "Bearer Ym90OmE6Yg==", ""),
        ("raw", " abc ", "abc"),
        ("raw", "", ""),
        ("query", "a%2Fb", "a/b"),
    ],
)
def test_each_kind_reads_the_credential_that_a_client_sends(kind: str, field: str, credential: str) -> None:
    assert KINDS[kind].read(field) == credential
