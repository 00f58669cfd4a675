"""The published examples of AWS, and what the real client signs."""

import pytest

from agent_sandbox.policy import Request, parse_request
from agent_sandbox.policy.match.injection import Credential
from agent_sandbox.proxy.secrets.sigv4 import Keys, NotSignableError, Signing, parse_keys, signing
from agent_sandbox.proxy.wire.message import Fields, RequestHead
from table_tests import each

EXAMPLE = Keys(key_id="AKIDEXAMPLE", secret="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token=None)
S3_EXAMPLE = Keys(key_id="AKIAIOSFODNN7EXAMPLE", secret="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", token=None)
ANY = Credential(header="authorization", secret="aws", kind="sigv4", region="us-east-1", service="service")
S3 = Credential(header="authorization", secret="aws", kind="sigv4", region="us-east-1", service="s3")
EMPTY = b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
DATE, S3_DATE = b"20150830T123600Z", b"20130524T000000Z"
FORM = (b"Content-Type", b"application/x-www-form-urlencoded")
UNRESERVED = b"/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@each(
    ("method", "target", "fields", "body", "signature"),
    [
        (b"GET", b"/", (), b"", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        (b"POST", b"/", (), b"", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (b"GET", UNRESERVED, (), b"", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"),
        (
            b"GET",
            b"/?Param2=value2&Param1=value1",
            (),
            b"",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (b"POST", b"/", (FORM,), b"Param1=value1", "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"),
    ],
)
def test_signs_published_examples_with_the_published_signature(
    method: bytes, target: bytes, fields: Fields, body: bytes, signature: str
) -> None:
    host = ((b"Host", b"example.amazonaws.com"), (b"X-Amz-Date", DATE))
    head = RequestHead(method, target, b"HTTP/1.1", (*host, (b"Accept", b"*/*"), *fields))
    signed = Signing(keys=EXAMPLE, credential=ANY, date=DATE, body_hash=b"").sign(head, body)
    names = "content-type;host;x-amz-date" if fields else "host;x-amz-date"
    assert signed.fields[-1] == (
        b"authorization",
        f"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders={names}, "
        f"Signature={signature}".encode(),
    )


@each(
    ("target", "signature"),
    [
        (b"/?lifecycle", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        (b"/?max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)
def test_signs_published_s3_examples_with_the_published_signature(target: bytes, signature: str) -> None:
    hashed = (b"x-amz-content-sha256", EMPTY)
    fields: Fields = ((b"x-amz-date", S3_DATE), hashed)
    head = RequestHead(b"GET", target, b"HTTP/2.0", fields, b"examplebucket.s3.amazonaws.com")
    signed = Signing(keys=S3_EXAMPLE, credential=S3, date=S3_DATE, body_hash=EMPTY).sign(head, b"ignored")
    assert signed.fields[-1][1].endswith(f"Signature={signature}".encode())


def test_adds_and_signs_the_session_token() -> None:
    head = RequestHead(b"GET", b"/", b"HTTP/1.1", ((b"Host", b"a.test"),))
    keys = Keys(key_id="AKID", secret="secret", token="the-token")
    signed = Signing(keys=keys, credential=ANY, date=DATE, body_hash=EMPTY).sign(head, b"")
    assert (b"x-amz-security-token", b"the-token") in signed.fields
    assert b"SignedHeaders=host;x-amz-security-token, " in signed.fields[-1][1]


@each(
    ("value", "parts"),
    [
        ("AKIDEXAMPLE:secret/+key", ("AKIDEXAMPLE", "secret/+key", None)),
        ("AKIDEXAMPLE:secret/+key:to/ken==", ("AKIDEXAMPLE", "secret/+key", "to/ken==")),
        ("AKIDEXAMPLE:secret/+key:", None),
        ("AKIDEXAMPLE:short", None),
        ("AKIDEXAMPLE secret/+key", None),
        ("AKIDEXAMPLE:secret key1", None),
        ("AKID:secret/+key", None),
        ("AKIDEXAMPLE:secret/+key:token:more", None),
        (
            '{"Version":1,"AccessKeyId":"AKIDEXAMPLE","SecretAccessKey":"secret/+key","SessionToken":"to/ken=="}',
            ("AKIDEXAMPLE", "secret/+key", "to/ken=="),
        ),
        ('{"AccessKeyId":"AKIDEXAMPLE","SecretAccessKey":"secret/+key"}', ("AKIDEXAMPLE", "secret/+key", None)),
        ('{"AccessKeyId":"AKIDEXAMPLE","SecretAccessKey":"secret/+key","SessionToken":"a:b"}', None),
        ('{"AccessKeyId":"AKIDEXAMPLE","SecretAccessKey":"secret\\n+key"}', None),
        ('{"AccessKeyId":1,"SecretAccessKey":"secret/+key"}', None),
        ("{}", None),
        ("{", None),
    ],
)
def test_parses_keys_with_colons_or_as_aws_prints_them(value: str, parts: tuple[str, str, str | None] | None) -> None:
    keys = parse_keys(value)
    assert (keys and (keys.key_id, keys.secret, keys.token)) == parts
    assert "secret/+key" not in repr(keys)


def claim(scope: str = "20150830/us-east-1/service/aws4_request", *, signature: str = "0" * 64) -> tuple[bytes, bytes]:
    text = f"AWS4-HMAC-SHA256 Credential=AKIA/{scope}, SignedHeaders=host, Signature={signature}"
    return b"Authorization", text.encode()


DATED = (b"X-Amz-Date", DATE)
UNSIGNED = "the request has no AWS signature (version 4) in its `Authorization` header"
UNDATED = "the request has no `x-amz-date` of the day of its signature"


@each(
    ("fields", "why"),
    [
        ((DATED,), UNSIGNED),
        ((DATED, claim(), claim()), UNSIGNED),
        ((DATED, claim(signature="x")), UNSIGNED),
        ((DATED, (b"Authorization", b"Bearer x")), UNSIGNED),
        (
            (DATED, claim("20150830/us-west-1/service/aws4_request")),
            "the request is signed for service in us-west-1, not for service in us-east-1",
        ),
        ((claim(),), UNDATED),
        ((claim(), DATED, DATED), UNDATED),
        ((claim(), (b"x-amz-date", b"20150829T123600Z")), UNDATED),
        (
            (claim(), DATED, (b"x-amz-content-sha256", b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD\xff")),
            "the proxy cannot sign a body of the form STREAMING-AWS4-HMAC-SHA256-PAYLOAD\\xff",
        ),
    ],
)
def test_explains_why_a_request_cannot_be_signed(fields: Fields, why: str) -> None:
    with pytest.raises(NotSignableError) as raised:
        signing(ANY, EXAMPLE, asked(), fields)
    assert str(raised.value) == why
    assert raised.value.hint


def asked(target: str = "/", body_size: int | None = 0) -> Request:
    return parse_request(scheme="https", host="a.test", port=443, method="GET", target=target, body_size=body_size)


@each(
    ("said", "body_size", "expected"),
    [
        (None, 0, EMPTY),
        (None, 5, b""),
        (None, None, b""),
        (b"UNSIGNED-PAYLOAD", 5, b"UNSIGNED-PAYLOAD"),
        (b"STREAMING-UNSIGNED-PAYLOAD-TRAILER", None, b"STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
        (b"a" * 64, None, b"a" * 64),
    ],
)
def test_reads_the_body_only_if_the_client_sends_no_hash(
    said: bytes | None, body_size: int | None, expected: bytes
) -> None:
    hashed = ((b"X-Amz-Content-Sha256", said),) if said else ()
    assert signing(ANY, EXAMPLE, asked(body_size=body_size), (claim(), DATED, *hashed)).body_hash == expected


def test_does_not_sign_a_plus_in_the_query() -> None:
    with pytest.raises(NotSignableError, match="which servers read in two ways"):
        signing(ANY, EXAMPLE, asked("/?a=b+c"), (claim(), DATED))
