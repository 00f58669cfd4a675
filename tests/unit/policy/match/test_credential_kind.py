import typing

from agent_sandbox.policy.match.credential_kind import KINDS, KindName
from table_tests import each


def test_the_kinds_match_the_names_in_the_schema() -> None:
    assert tuple(KINDS) == ("bearer", "basic", "raw", "query", "sigv4")
    assert sorted(name for name, kind in KINDS.items() if not kind.in_query) == sorted(typing.get_args(KindName))


@each(
    ("kind", "written"),
    [
        ("bearer", "Bearer the secret"),
        ("basic", "Basic Ym90OnRoZSBzZWNyZXQ="),
        ("raw", "the secret"),
        ("query", "the%20secret"),
        ("sigv4", "AWS4-HMAC-SHA256 Credential=the secret, bot"),
    ],
)
def test_each_kind_formats_the_secret(kind: str, written: str) -> None:
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
        ("sigv4", " AWS4-HMAC-SHA256 Credential=AKIA/20260101/r/s/aws4_request, SignedHeaders=a, Signature=b", "AKIA"),
        ("sigv4", "AWS4-ECDSA-P256-SHA256 Credential=AKIA/20260101/s/aws4_request", ""),
    ],
)
def test_each_kind_reads_the_credential_that_a_client_sends(kind: str, field: str, credential: str) -> None:
    assert KINDS[kind].read(field) == credential


def test_sigv4_adds_the_variable_of_the_aws_secret_key() -> None:
    assert KINDS["sigv4"].more_variables("AWS_ACCESS_KEY_ID") == ("AWS_SECRET_ACCESS_KEY",)
    assert KINDS["bearer"].more_variables("A_KEY") == ()


def test_sigv4_has_region_variables_for_an_aws_key() -> None:
    assert KINDS["sigv4"].region_variables("AWS_ACCESS_KEY_ID") == ("AWS_REGION", "AWS_DEFAULT_REGION")
    assert KINDS["sigv4"].region_variables("A_TOKEN") == KINDS["bearer"].region_variables("AWS_ACCESS_KEY_ID") == ()
