"""The laws of injection: whatever a client sends, a value goes to a host that it is bound to, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.policy import parse_request
from agent_sandbox.policy.match.credential_kind import KINDS
from agent_sandbox.policy.match.injection import Credential, Existing, Injection, injection
from agent_sandbox.proxy.secrets.injector import Filling, Injector, WithoutSecretError
from agent_sandbox.proxy.secrets.placeholder import Placeholders
from agent_sandbox.proxy.secrets.redactable import folded
from agent_sandbox.proxy.secrets.store import put_secret
from agent_sandbox.proxy.wire.message import RequestHead

if TYPE_CHECKING:
    from agent_sandbox.proxy.wire.message import Fields

KEY_ID, SECRET = "AKIAREAL", "the-real-value-of-it"
# Of a form that every kind takes.
VALUE = f"{KEY_ID}:{SECRET}"
BOUND, OTHERS = ("a.test", "b.test"), ("c.test", "a.test.c.test", "xa.test")
PLACEHOLDERS = Placeholders(b"k" * 32)
MINE, ANOTHER = (PLACEHOLDERS.ending(name) for name in ("token", "another"))
HEADERS = ("x-api-key", "authorization", "cookie")
SPELLINGS = tuple(spelled for name in HEADERS for spelled in (name, name.upper(), name.replace("-", "_")))

credentials = st.builds(
    lambda kind, header, others: Credential(
        header=KINDS[kind].header or header,
        secret="token",
        kind=kind,
        username="bot" if "username" in KINDS[kind].options else None,
        region="bot" if "region" in KINDS[kind].options else None,
        service="bot" if "service" in KINDS[kind].options else None,
        others=tuple(sorted(others - {header})),
    ),
    st.sampled_from(sorted(KINDS)),
    st.sampled_from(HEADERS),
    st.frozensets(st.sampled_from(HEADERS)),
)
injections = st.builds(
    lambda one, existing: injection([one], existing=existing), credentials, st.sampled_from(Existing)
)
texts = st.sampled_from(
    [
        kind.write(text + scope, f"SignedHeaders=host, Signature={'0' * 64}")
        for kind in KINDS.values()
        for text in (MINE, f"sk-{MINE}", ANOTHER, "own")
        for scope in ({"", "/20260101/bot/bot/aws4_request"} if kind.signs else {""})
    ]
)
sent = st.lists(
    st.tuples(st.sampled_from((*SPELLINGS, "accept")).map(str.encode), texts.map(str.encode)), max_size=4
).map(lambda fields: ((b"x-amz-date", b"20260101T000000Z"), *fields))


def filling(put_in: Injection, host: str, scheme: str, fields: Fields) -> Filling | None:
    request = parse_request(scheme=scheme, host=host, port=443, method="GET", target="/")
    with TemporaryDirectory() as folder:
        put_secret(Path(folder), "token", BOUND, VALUE.encode())
        try:
            return Injector(Path(folder), placeholders=PLACEHOLDERS).filling(put_in, request, fields)
        except WithoutSecretError:
            return None


def places_of(credential: Credential) -> set[bytes]:
    own = () if credential.row.in_query else (credential.header,)
    return {folded(name.encode()) for name in (*own, *credential.others, *credential.row.others)}


def head(fields: Fields) -> RequestHead:
    return RequestHead(b"GET", b"/", b"HTTP/1.1", ((b"host", b"a.test"), *fields))


@given(injections, st.sampled_from((*BOUND, *OTHERS)), st.sampled_from(("https", "http")), sent)
def test_a_value_leaves_only_towards_a_bound_host_and_over_tls(
    put_in: Injection, host: str, scheme: str, fields: Fields
) -> None:
    found = filling(put_in, host, scheme, fields)
    if found and found.uses:
        assert (host in BOUND, scheme) == (True, "https")


@given(injections, sent)
def test_beside_the_secret_goes_no_credential_of_the_clients_own(put_in: Injection, fields: Fields) -> None:
    (credential,) = put_in.credentials
    found = filling(put_in, "a.test", "https", fields)
    if found and found.uses:
        places = places_of(credential)
        request = found.into_request(head(fields), b"")
        left = [one for one in request.fields if folded(one[0]) in places]
        if credential.row.signs:
            ((name, value),) = left
            assert (name, credential.row.read(value.decode())) == (b"authorization", KEY_ID)
            assert SECRET.encode() not in b"".join(value for _, value in request.fields)
        else:
            written = (credential.header.encode(), credential.row.write(VALUE, "bot").encode())
            assert [*left, *found.parameters] == [written]


@given(injections, sent)
def test_without_the_secret_a_request_goes_as_it_came(put_in: Injection, fields: Fields) -> None:
    found = filling(put_in, "a.test", "https", fields)
    if found and not found.uses:
        assert put_in.existing is Existing.KEEP
        assert (found.into(fields), found.echoes) == (fields, ())


@given(injections, sent)
def test_a_request_is_refused_only_for_a_credential_of_the_clients_own(put_in: Injection, fields: Fields) -> None:
    (credential,) = put_in.credentials
    places = places_of(credential)
    theirs = [value for name, value in fields if folded(name) in places]
    own = any(not any(kind.read(value.decode()).endswith(MINE) for kind in KINDS.values()) for value in theirs)
    found = filling(put_in, "a.test", "https", fields)
    is_own = own and put_in.existing is Existing.FAIL
    # A request without a signature to replace is refused as well.
    assert found is None if is_own else credential.row.signs or found is not None
