from itertools import chain

import pytest

from agent_sandbox.policy.match.credential_kind import KINDS
from agent_sandbox.proxy.audit.record import SecretUse
from agent_sandbox.proxy.secrets.error_code import MOST, ErrorCode, codes_for
from table_tests import each

CODES = KINDS["sigv4"].error_codes
XML = b'<?xml version="1.0"?>\n<Error><Code>%s</Code><Message>%s</Message></Error>'


@each(
    "body",
    [
        XML % (b"InvalidAccessKeyId", b"It does not exist."),
        XML % (b"ExpiredToken", b"It has expired."),
        b'{"__type":"com.amazon.coral.service#UnrecognizedClientException","message":"It is invalid."}',
        b'{"code":"InvalidClientTokenId"}',
    ],
)
def test_finds_a_code_in_a_body_that_arrives_in_any_pieces(body: bytes) -> None:
    for pieces in ([body], [body[:40], body[40:]], [bytes([char]) for char in body]):
        seen = ErrorCode(CODES, ())
        assert b"".join([*chain.from_iterable(map(seen.feed, pieces)), seen.end()]) == body
        assert seen.is_found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (b"UnrecognizedClientException:http://internal.amazon.com/coral/", True),
        (b"ExpiredTokenException", True),
        (b"AccessDeniedException", False),
        (b"NotExpiredToken", False),
    ],
)
def test_finds_a_code_in_a_header(value: bytes, found: bool) -> None:  # noqa: FBT001
    assert ErrorCode(CODES, ((b"x-amzn-ErrorType", value),)).is_found is found


@each(
    "body",
    [
        b"",
        XML % (b"AccessDenied", b"ExpiredToken"),
        XML % (b"ExpiredTokens", b""),
        XML % (b"NoSuchKey", b'"code":"ExpiredToken"'),
        b'{"code":"AccessDenied","message":"No access to <Code>ExpiredToken</Code>"}',
        b'{"code":"AccessDenied","message":"No access to \\"code\\":\\"ExpiredToken\\""}',
        b" " * MOST + XML % (b"ExpiredToken", b""),
    ],
)
def test_other_errors_do_not_refuse_the_credential(body: bytes) -> None:
    seen = ErrorCode(CODES, ())
    assert seen.feed(body) == (body,)
    assert not seen.is_found


def test_codes_depend_on_the_kinds_of_credentials_in_the_request() -> None:
    uses = [SecretUse(secret="a", kind=kind, source="stored", age=0.0) for kind in ("bearer", "sigv4", "ssh-signature")]
    assert codes_for(tuple(uses)) == CODES
    assert codes_for(tuple(uses[:1])) == ()
