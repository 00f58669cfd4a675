"""The kinds of credentials: how each is written into a request, recognised in one, and found in a response.

A new kind is one row of `KINDS`, which the policy file, the policy engine, the proxy and the redaction of echoes read.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Literal
from urllib.parse import quote, unquote

from msgspec import Struct

# The kinds for a header. A query parameter needs no kind in the policy, because it has its own section.
KindName = Literal["basic", "bearer", "raw", "sigv4"]
BEARER, BASIC, QUERY = "bearer", "basic", "query"
SIGNED = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/,\s]+)")


def _basic_token(value: str, username: str) -> str:
    return b64encode(f"{username}:{value}".encode()).decode("ascii")


def _after(scheme: str, field: str) -> str:
    """Return what follows an authentication scheme, whose case does not matter, or an empty string."""
    found, _, rest = field.strip().partition(" ")
    return rest.strip() if found.lower() == scheme else ""


def _password(field: str) -> str:
    try:
        return b64decode(_after(BASIC, field), validate=True).decode("latin-1").partition(":")[2]
    except ValueError:
        return ""


def _bearer_token(field: str) -> str:
    # GitHub's clients write `token`, as its first API did.
    return _after(BEARER, field) or _after("token", field)


def _access_key_id(field: str) -> str:
    found = SIGNED.match(field.strip())
    return found[1] if found else ""


def _region_variables(name: str) -> tuple[str, ...]:
    begin, found, _ = name.partition("ACCESS_KEY_ID")
    return (f"{begin}REGION", f"{begin}DEFAULT_REGION") if found else ()


class CredentialKind(Struct, frozen=True, kw_only=True):
    """One kind of credential.

    `write` makes the value of the header, or of the parameter `in_query`, from the secret and the user name. `read`
    returns the secret in such a value or an empty string. `encoded` returns the texts, except the secret itself, that
    would reveal the secret. `options` are the keys that the kind needs in the policy.

    A secret that `signs` is not sent. `write` then makes the header from the key ID with its scope, and from the rest
    of the signature. The server also accepts such a credential in the headers `others` and in `parameters`. It refuses
    one with a 401, or with another error that has one of the `error_codes`.
    """

    name: KindName | Literal["query"]
    summary: str
    write: Callable[[str, str], str]
    read: Callable[[str], str]
    options: tuple[str, ...] = ()
    in_query: bool = False
    signs: bool = False
    # The only header that can have it.
    header: str = ""
    others: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    error_codes: tuple[str, ...] = ()
    # Variables that hold the placeholder in addition to the one that the policy names.
    more_variables: Callable[[str], tuple[str, ...]] = lambda _name: ()
    # Variables that hold the region of the credential.
    region_variables: Callable[[str], tuple[str, ...]] = lambda _name: ()
    encoded: Callable[[str, str], tuple[str, ...]] = lambda _value, _username: ()


KINDS: dict[str, CredentialKind] = {
    kind.name: kind
    for kind in (
        CredentialKind(
            name="bearer",
            summary="`Bearer SECRET`",
            write=lambda value, _: f"Bearer {value}",
            read=_bearer_token,
        ),
        CredentialKind(
            name="basic",
            summary="`Basic`, with the secret as the password",
            write=lambda value, username: f"Basic {_basic_token(value, username)}",
            read=_password,
            options=("username",),
            encoded=lambda value, username: (_basic_token(value, username).rstrip("="),),
        ),
        CredentialKind(
            name="raw",
            summary="the secret itself, as in `x-api-key`",
            write=lambda value, _: value,
            read=str.strip,
        ),
        CredentialKind(
            name="query",
            summary="a parameter of the query",
            write=lambda value, _: quote(value, safe=""),
            read=unquote,
            in_query=True,
        ),
        CredentialKind(
            name="sigv4",
            summary="AWS Signature Version 4, made with the secret",
            write=lambda key, rest: f"AWS4-HMAC-SHA256 Credential={key}, {rest}",
            read=_access_key_id,
            options=("region", "service"),
            signs=True,
            header="authorization",
            others=("x-amz-security-token", "x-amz-s3session-token"),
            # Of presigned URLs, in this version and in the one before.
            parameters=("X-Amz-Credential", "X-Amz-Signature", "X-Amz-Security-Token", "AWSAccessKeyId"),
            error_codes=(
                "ExpiredToken",
                "ExpiredTokenException",
                "InvalidAccessKeyId",
                "InvalidClientTokenId",
                "InvalidSignatureException",
                "InvalidToken",
                "SignatureDoesNotMatch",
                "UnrecognizedClientException",
            ),
            more_variables=lambda name: (name.replace("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"),),
            region_variables=_region_variables,
        ),
    )
}
