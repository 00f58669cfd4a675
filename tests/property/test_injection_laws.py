"""The laws of injection: whatever a client sends, a secret goes only to hosts that it is bound to.

They hold for each kind of credential and each way in which a value comes to the proxy. A login is a `bearer` token with
a time to live, whose client also asks for a new token.
"""

import json
from base64 import b64encode
from collections.abc import Callable
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote, urlencode

from hypothesis import given
from hypothesis import strategies as st

from agent_sandbox.policy import parse_request
from agent_sandbox.policy.match.credential_kind import KINDS
from agent_sandbox.policy.match.injection import Credential, Existing, Injection, injection
from agent_sandbox.proxy.secrets.injector import Filling, Injector, WithoutSecretError
from agent_sandbox.proxy.secrets.login import Refresher, RefusedRefreshError, put_login
from agent_sandbox.proxy.secrets.placeholder import Placeholders
from agent_sandbox.proxy.secrets.redactable import folded
from agent_sandbox.proxy.secrets.redaction import Redactor, redact
from agent_sandbox.proxy.secrets.store import put_secret, put_sourced, uptime
from agent_sandbox.proxy.wire.message import Fields, RequestHead

KEY_ID, SECRET = "AKIAREAL", "the-real-value-of-it"
# Valid for every kind of credential.
VALUE = f"{KEY_ID}:{SECRET}"
BOUND, OTHERS = ("a.test", "b.test"), ("c.test", "a.test.c.test", "xa.test")
PLACEHOLDERS = Placeholders(b"k" * 32)
MINE, ANOTHER = (PLACEHOLDERS.ending(name) for name in ("token", "another"))
HEADERS = ("x-api-key", "authorization", "cookie")
ENDPOINT, ENDPOINT_PATH = "login.test", "/v1/oauth/token"


def sign_in(folder: Path, name: str, hosts: tuple[str, ...], value: bytes, *, seconds: float | None) -> None:
    """Store the access token of a login of the host machine."""
    said = {
        "endpoints": [f"https://{ENDPOINT}{ENDPOINT_PATH}"],
        "begins": {"access": "sk-", "refresh": "rt-"},
        "answer": {"access_token": "{access}", "refresh_token": "{refresh}", "expires_in": "{seconds}"},
        "value": value.decode(),
        "lifetime": seconds,
    }
    put_login(folder, name, list(hosts), json.dumps(said).encode())


# How the proxy gets a secret: typed in, from a source, or as a login of the host machine.
STORES: dict[str, Callable[[Path, str, tuple[str, ...], bytes], None]] = {
    "typed in": put_secret,
    "source": lambda *secret: put_sourced(*secret, source="command", until=uptime() + 1000),
    "login": partial(sign_in, seconds=1000),
    "login without expiry": partial(sign_in, seconds=None),
}
EXPIRED: dict[str, Callable[[Path, str, tuple[str, ...], bytes], None]] = {
    "expired source": lambda *secret: put_sourced(*secret, source="command", until=uptime()),
    "expired login": partial(sign_in, seconds=0),
}
stores, all_stores = st.sampled_from(sorted(STORES)), st.sampled_from(sorted(STORES | EXPIRED))
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


def with_secret(folder: str, store: str) -> Path:
    """Return the directory of a secret store that has the secret."""
    for name in ("secrets", "run"):
        Path(folder, name).mkdir()
    (STORES | EXPIRED)[store](Path(folder, "secrets"), "token", BOUND, VALUE.encode())
    return Path(folder, "secrets")


def filling(put_in: Injection, host: str, scheme: str, fields: Fields, store: str) -> Filling | None:
    request = parse_request(scheme=scheme, host=host, port=443, method="GET", target="/")
    with TemporaryDirectory() as folder:
        try:
            return Injector(with_secret(folder, store), placeholders=PLACEHOLDERS).filling(put_in, request, fields)
        except WithoutSecretError:
            return None


def places_of(credential: Credential) -> set[bytes]:
    own = () if credential.row.in_query else (credential.header,)
    return {folded(name.encode()) for name in (*own, *credential.others, *credential.row.others)}


def ways_of(text: str) -> tuple[bytes, ...]:
    """Return the encodings in which a server can send back a text."""
    ways = (text, quote(text, safe=""), json.dumps(text), b64encode(text.encode()).decode(), text.encode().hex())
    return tuple(map(str.encode, ways))


def cut(data: bytes) -> st.SearchStrategy[list[bytes]]:
    """Return ways to split a response into pieces."""
    return st.lists(st.integers(0, len(data)), max_size=6).map(
        lambda places: [data[begin:end] for begin, end in pairwise([0, *sorted(places), len(data)])]
    )


def head(fields: Fields) -> RequestHead:
    return RequestHead(b"GET", b"/", b"HTTP/1.1", ((b"host", b"a.test"), *fields))


@given(injections, st.sampled_from((*BOUND, *OTHERS)), st.sampled_from(("https", "http")), sent, all_stores)
def test_a_secret_is_sent_only_to_a_bound_host_over_tls(
    put_in: Injection, host: str, scheme: str, fields: Fields, store: str
) -> None:
    found = filling(put_in, host, scheme, fields, store)
    if found and found.uses:
        assert (host in BOUND, scheme, store in STORES) == (True, "https", True)


@given(injections, sent, stores)
def test_an_injected_secret_replaces_all_credentials_of_the_client(
    put_in: Injection, fields: Fields, store: str
) -> None:
    (credential,) = put_in.credentials
    found = filling(put_in, "a.test", "https", fields, store)
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


@given(injections, sent, stores)
def test_a_request_without_injection_is_sent_unchanged(put_in: Injection, fields: Fields, store: str) -> None:
    found = filling(put_in, "a.test", "https", fields, store)
    if found and not found.uses:
        assert put_in.existing is Existing.KEEP
        assert (found.into(fields), found.echoes) == (fields, ())


@given(injections, sent, stores)
def test_denies_injection_only_for_a_credential_of_the_client_or_a_missing_signature(
    put_in: Injection, fields: Fields, store: str
) -> None:
    (credential,) = put_in.credentials
    places = places_of(credential)
    theirs = [value for name, value in fields if folded(name) in places]
    own = any(not any(kind.read(value.decode()).endswith(MINE) for kind in KINDS.values()) for value in theirs)
    found = filling(put_in, "a.test", "https", fields, store)
    is_own = own and put_in.existing is Existing.FAIL
    # A request without a signature to replace is refused as well.
    assert found is None if is_own else credential.row.signs or found is not None


@given(injections, stores, st.data())
def test_redacts_echoes_of_the_secret_however_the_response_is_split(
    put_in: Injection, store: str, data: st.DataObject
) -> None:
    (credential,) = put_in.credentials
    found = filling(put_in, "a.test", "https", (), store)
    # A secret that signs is not sent.
    if found and not credential.row.signs:
        echoed = (*ways_of(VALUE), *ways_of(credential.row.write(VALUE, "bot")))
        echo = b" ".join(data.draw(st.lists(st.sampled_from(echoed), min_size=1, max_size=3)))
        redactor = Redactor(found.echoes)
        shown = b"".join([*chain.from_iterable(map(redactor.feed, data.draw(cut(echo)))), redactor.end()])
        assert shown == redact(found.echoes, echo)
        assert [way for way in ways_of(VALUE) if way in shown] == []


REFRESH = PLACEHOLDERS.ending("token:refresh")
tokens = st.sampled_from([MINE, REFRESH, f"rt-{REFRESH}", ANOTHER, "own"])
roles = st.sampled_from(["refresh_token", "code", "assertion"])
grants = st.sampled_from(["refresh_token", "authorization_code", ""])
SHAPES: tuple[Callable[[str, str, str], str], ...] = (
    lambda token, role, grant: json.dumps({role: token, "grant_type": grant}),
    lambda token, role, grant: urlencode({role: token, "grant_type": grant}),
    lambda token, role, grant: json.dumps([{role: {token: [grant]}}]),
    lambda token, role, grant: "".join(f"%{ord(sign):02x}" for sign in token) + f"={role}&grant_type={grant}",
    lambda token, role, grant: f"--{role}\r\n{grant}\r\n{token}",
)


@given(st.sampled_from(SHAPES), tokens, roles, grants, all_stores)
def test_answers_refresh_requests_with_placeholders_and_forwards_no_placeholder(
    shape: Callable[[str, str, str], str], token: str, role: str, grant: str, store: str
) -> None:
    request = parse_request(scheme="https", host=ENDPOINT, port=443, method="POST", target=ENDPOINT_PATH)
    with TemporaryDirectory() as folder:
        refresher = Refresher(with_secret(folder, store), PLACEHOLDERS)
        is_read = refresher.reads(request)
        try:
            answer = refresher.answer(request, shape(token, role, grant).encode()) if is_read else None
        except RefusedRefreshError as refused:
            answer = {"error": str(refused)}
    assert is_read is ("login" in store)
    assert (answer is not None) is (is_read and token != "own")
    assert SECRET not in str(answer)
    if answer and "access_token" in answer:
        assert (store in STORES, role, grant) == (True, "refresh_token", "refresh_token")
        assert (str(answer["access_token"]), token.endswith(REFRESH)) == (f"sk-{MINE}", True)
