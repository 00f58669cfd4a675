from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_sandbox.policy import Request, parse_request
from agent_sandbox.policy.match.injection import Credential, Existing, injection
from agent_sandbox.policy.match.upstream import Authorities, Upstream
from agent_sandbox.proxy.secrets.escaped_text import EscapedText
from agent_sandbox.proxy.secrets.injector import Filling, Injector, WithoutSecretError
from agent_sandbox.proxy.secrets.placeholder import Placeholders
from agent_sandbox.proxy.secrets.redaction import redact
from agent_sandbox.proxy.secrets.store import put_secret, put_unresolved
from agent_sandbox.proxy.wire.message import RequestHead
from policy_texts import PolicyOf

BEARER = Credential(header="authorization", secret="token")
BASIC = Credential(header="x_login", secret="login", kind="basic", username="bot")
RAW = Credential(header="x-api-key", secret="token", kind="raw", others=("authorization",))
VALUE = b"correct horse"


PLACEHOLDERS = Placeholders(b"k" * 32)
MINE = PLACEHOLDERS.ending("token").encode()


@pytest.fixture
def injector(tmp_path: Path) -> Injector:
    for name in ("token", "login"):
        put_secret(tmp_path, name, ["a.test"], VALUE)
    return Injector(tmp_path, placeholders=PLACEHOLDERS)


def asked(url_host: str = "a.test", scheme: str = "https") -> Request:
    return parse_request(scheme=scheme, host=url_host, port=443, method="GET", target="/")


def filling(
    injector: Injector, *credentials: Credential, brought: bytes = b"", existing: Existing = Existing.FAIL
) -> Filling:
    put_in = injection(credentials, existing=existing)
    fields = ((brought, b"own"),) if brought else ()
    return injector.filling(put_in, asked(), fields)


def test_writes_each_secret_in_its_header_and_scheme(injector: Injector) -> None:
    found = filling(injector, BEARER, BASIC, Credential(header="x-api-key", secret="token", kind="raw"))
    assert found.fields == (
        (b"authorization", b"Bearer correct horse"),
        (b"x-api-key", b"correct horse"),
        (b"x_login", b"Basic Ym90OmNvcnJlY3QgaG9yc2U="),
    )
    assert EscapedText(VALUE) in found.echoes
    uses = [(one.secret, one.kind, one.source, round(one.age)) for one in found.uses]
    assert uses == [("token", "bearer", "stored", 0), ("token", "raw", "stored", 0), ("login", "basic", "stored", 0)]
    assert b"correct" not in repr(found).encode()


@pytest.mark.parametrize("brought", [b"Authorization", b"AUTHORIZATION", b"authorization"])
def test_denies_or_replaces_a_header_that_the_client_sends(injector: Injector, brought: bytes) -> None:
    with pytest.raises(WithoutSecretError) as raised:
        filling(injector, BEARER, brought=brought)
    assert str(raised.value) == "the request already has the header `authorization`, where the proxy would inject token"
    assert filling(injector, BEARER, brought=brought, existing=Existing.REPLACE).into(
        ((brought, b"own"), (b"A", b"b"))
    ) == (
        (b"A", b"b"),
        (b"authorization", b"Bearer correct horse"),
        (b"accept-encoding", b"identity"),
    )


def test_treats_underscores_and_hyphens_in_header_names_as_equal(injector: Injector) -> None:
    for brought in (b"X_Login", b"x-login"):
        with pytest.raises(WithoutSecretError):
            filling(injector, BASIC, brought=brought)
        assert brought not in dict(filling(injector, BASIC, existing=Existing.REPLACE).into(((brought, b"own"),)))


def test_asks_for_an_uncompressed_complete_response(injector: Injector) -> None:
    fields = ((b"Accept_Encoding", b"br"), (b"accept-encoding", b"gzip"), (b"Range", b"bytes=0-3"), (b"If-Range", b"x"))
    assert filling(injector, BEARER).into(fields) == (
        (b"authorization", b"Bearer correct horse"),
        (b"accept-encoding", b"identity"),
    )


@pytest.mark.usefixtures("injector")
def test_injects_a_secret_only_for_hosts_that_it_is_bound_to(tmp_path: Path) -> None:
    for folder, host, why in (
        (tmp_path, "b.test", "secret token is not bound to b.test"),
        (tmp_path / "none", "a.test", "the proxy has no secret token"),
        (None, "a.test", "the proxy has no secret token"),
    ):
        with pytest.raises(WithoutSecretError) as raised:
            Injector(folder).filling(injection([BEARER]), asked(host), ())
        assert str(raised.value) == why
        bound = "--host a.test " if host == "b.test" else ""
        assert raised.value.hint == f"agent-sandbox secret set token {bound}--host {host}"


def test_injects_secrets_only_over_https(injector: Injector) -> None:
    with pytest.raises(WithoutSecretError, match="a secret is sent only over https"):
        injector.filling(injection([BEARER]), asked(scheme="http"), ())


def test_injects_no_secret_while_the_project_adds_a_ca() -> None:
    authorities = Authorities(name="corp-ca.pem", pem="")
    injector = Injector(None, own_layers=["user"])
    injector.check_authorities(None)
    injector.check_authorities(Upstream(layer="project", ca=None))
    injector.check_authorities(Upstream(layer="user", ca=authorities))
    with pytest.raises(WithoutSecretError) as raised:
        injector.check_authorities(Upstream(layer="project", ca=authorities))
    assert str(raised.value) == "no secret is sent while the project's policy adds a CA, which can sign for every host"
    assert raised.value.hint == "move its `upstream` setting to your own policy file"


def with_own(injector: Injector, existing: Existing, *sent: tuple[bytes, bytes]) -> Filling:
    return injector.filling(injection([RAW], existing=existing), asked(), sent)


@pytest.mark.parametrize("existing", Existing)
@pytest.mark.parametrize("name", [b"X-API-Key", b"x_api_key", b"Authorization"])
@pytest.mark.parametrize("value", [MINE, b"sk-" + MINE, b"Bearer sk-" + MINE, b"token " + MINE])
def test_replaces_the_placeholder_in_every_header_that_can_carry_the_credential(
    injector: Injector, existing: Existing, name: bytes, value: bytes
) -> None:
    found = with_own(injector, existing, (name, value))
    assert found.into(((name, value), (b"A", b"b"))) == (
        (b"A", b"b"),
        (b"x-api-key", VALUE),
        (b"accept-encoding", b"identity"),
    )


@pytest.mark.parametrize("name", [b"X-API-Key", b"Authorization"])
@pytest.mark.parametrize("own", [b"sk-own", MINE + b"x", PLACEHOLDERS.ending("login").encode(), b""])
def test_denies_keeps_or_replaces_other_credentials(injector: Injector, name: bytes, own: bytes) -> None:
    with pytest.raises(WithoutSecretError):
        with_own(injector, Existing.FAIL, (name, own))
    with pytest.raises(WithoutSecretError):
        with_own(injector, Existing.FAIL, (name, MINE), (name, own))
    kept = with_own(injector, Existing.KEEP, (name, own))
    assert (kept.into(((name, own), (b"range", b"x"))), kept.echoes) == (((name, own), (b"range", b"x")), ())
    assert with_own(injector, Existing.REPLACE, (name, own)).into(((name, own),)) == (
        (b"x-api-key", VALUE),
        (b"accept-encoding", b"identity"),
    )


def test_the_denial_names_the_header_with_the_clients_credential(injector: Injector) -> None:
    with pytest.raises(WithoutSecretError) as raised:
        with_own(injector, Existing.FAIL, (b"Authorization", b"Bearer own"))
    assert str(raised.value) == (
        "the request has its own credential in `authorization`, where the proxy would inject token"
    )
    assert raised.value.hint == "send it without `authorization`, or set `on_existing_header` in the policy"


def test_keep_does_not_forward_a_request_without_any_credential(tmp_path: Path) -> None:
    with pytest.raises(WithoutSecretError, match="the proxy has no secret token"):
        with_own(Injector(tmp_path), Existing.KEEP)


def test_finds_a_placeholder_that_would_be_sent_to_the_server(injector: Injector, policy: PolicyOf) -> None:
    secret = "transform: {request: {headers: {X: {secret: s, transform: {type: raw}}}}}"
    filled, without = policy(f"domains: [{{host: a.test, {secret}}}]"), policy("domains: [a.test]")
    head = RequestHead(b"GET", b"/", b"HTTP/1.1", ((b"Cookie", b"a=" + MINE),))
    stray = injector.stray_placeholder(filled, head)
    assert stray is not None
    assert str(stray) == (
        "`Cookie` has a placeholder, which the proxy replaces only where the policy and its owner say so"
    )
    assert stray.hint == "agent-sandbox secret list"
    assert injector.stray_placeholder(filled, replace(head, fields=((b"Cookie", b"a=b"),))) is None
    assert injector.stray_placeholder(without, head) is None


def test_a_failed_source_is_a_fault_which_only_the_secrets_hosts_see(tmp_path: Path) -> None:
    for name in ("secrets", "run"):
        (tmp_path / name).mkdir()
    put_unresolved(tmp_path / "secrets", "token", ["a.test"])
    injector = Injector(tmp_path / "secrets")
    with pytest.raises(WithoutSecretError) as raised:
        filling(injector, BEARER)
    assert (str(raised.value), raised.value.hint, raised.value.fault) == (
        "secret token has no value now: its source failed",
        "agent-sandbox secret sync",
        True,
    )
    with pytest.raises(WithoutSecretError, match=r"secret token is not bound to b\.test"):
        injector.filling(injection([BEARER]), asked("b.test"), ())


@pytest.mark.parametrize("query", ["key=own", "a=b&K%65y=own", "a=b;key=own", f"key={MINE.decode()}&key=own"])
def test_denies_or_keeps_a_key_in_the_query_but_never_replaces_it(injector: Injector, query: str) -> None:
    one = Credential(header="x-api-key", secret="token", kind="raw", parameters=("key",))
    request = replace(asked(), query=query)
    for existing in (Existing.FAIL, Existing.REPLACE):
        with pytest.raises(WithoutSecretError) as raised:
            injector.filling(injection([one], existing=existing), request, ())
        assert str(raised.value) == "the request has its own credential in `?key`, where the proxy would inject token"
    assert injector.filling(injection([one], existing=Existing.KEEP), request, ()).fields == ()
    other = replace(asked(), query="a=key&keys=1")
    assert injector.filling(injection([one]), other, ()).fields


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (f"/x?key={MINE.decode()}", b"/x"),
        (f"/x?alt=sse&K%65y=sk-{MINE.decode()}&a=key", b"/x?alt=sse&a=key"),
        ("/x?alt=sse", b"/x?alt=sse"),
        ("/x?", b"/x?"),
    ],
)
def test_a_placeholder_in_a_parameter_is_removed_and_the_header_injected(
    injector: Injector, target: str, expected: bytes
) -> None:
    one = Credential(header="x-api-key", secret="token", kind="raw", parameters=("key",))
    request = parse_request(scheme="https", host="a.test", port=443, method="GET", target=target)
    for existing in Existing:
        found = injector.filling(injection([one], existing=existing), request, ())
        assert found.into_target(target.encode()) == expected
        assert dict(found.fields) == {b"x-api-key": VALUE}


IN_QUERY = Credential(header="key", secret="token", kind="query")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/x", b"/x?key=correct%20horse"),
        ("/x?a=1&b=%2F&", b"/x?a=1&b=%2F&&key=correct%20horse"),
        (f"/x?key=sk-{MINE.decode()}&a=1", b"/x?a=1&key=correct%20horse"),
        (f"/x?a=1&%6bey={MINE.decode()}", b"/x?a=1&key=correct%20horse"),
    ],
)
def test_replaces_the_placeholder_in_the_query_by_the_secret(injector: Injector, target: str, expected: bytes) -> None:
    request = parse_request(scheme="https", host="a.test", port=443, method="GET", target=target)
    found = injector.filling(injection([IN_QUERY]), request, ())
    assert found.into_target(target.encode()) == expected
    assert found.into(((b"range", b"x"), (b"a", b"b"))) == ((b"a", b"b"), (b"accept-encoding", b"identity"))
    assert EscapedText(VALUE) in found.echoes
    assert b"correct" not in repr(found).encode()


@pytest.mark.parametrize("query", ["key=own", "KEY=own", "key=own&key=" + MINE.decode(), "a=1;key=own", "key"])
def test_denies_keeps_or_replaces_the_clients_own_query_parameter(injector: Injector, query: str) -> None:
    request = replace(asked(), query=query)
    with pytest.raises(WithoutSecretError) as raised:
        injector.filling(injection([IN_QUERY]), request, ())
    assert str(raised.value) == "the request has its own credential in `?key`, where the proxy would inject token"
    kept = injector.filling(injection([IN_QUERY], existing=Existing.KEEP), request, ())
    assert (kept.into_target(b"/?" + query.encode()), kept.echoes) == (b"/?" + query.encode(), ())
    replaced = injector.filling(injection([IN_QUERY], existing=Existing.REPLACE), request, ())
    assert replaced.into_target(b"/?" + query.encode()) == b"/?key=correct%20horse"


SIGNED = Credential(header="authorization", secret="aws", kind="sigv4", region="eu-north-1", service="s3")
AWS = PLACEHOLDERS.ending("aws")
DATE = (b"X-Amz-Date", b"20260101T000000Z")
REST = f"SignedHeaders=host, Signature={'0' * 64}"


def claim(key_id: str = f"AKIA{AWS}") -> tuple[bytes, bytes]:
    scope = "20260101/eu-north-1/s3/aws4_request"
    return b"Authorization", f"AWS4-HMAC-SHA256 Credential={key_id}/{scope}, {REST}".encode()


def sign(folder: Path, *fields: tuple[bytes, bytes], existing: Existing = Existing.FAIL, query: str = "") -> Filling:
    injector = Injector(folder, placeholders=PLACEHOLDERS)
    request = replace(asked(), query=query)
    return injector.filling(injection([SIGNED], existing=existing), request, fields)


def test_a_signing_secret_is_not_sent_and_needs_no_redaction(tmp_path: Path) -> None:
    put_secret(tmp_path, "aws", ["a.test"], b"AKIAREAL:the-secret-key")
    fields = (claim(), DATE, (b"Range", b"bytes=0-9"))
    found = sign(tmp_path, *fields)
    assert (found.echoes, found.reads_body, [one.kind for one in found.uses]) == ((), True, ["sigv4"])
    head = RequestHead(b"PUT", b"/k", b"HTTP/1.1", ((b"Host", b"a.test"), *fields))
    sent = found.into_request(head, b"body").fields
    assert sent[:3] == ((b"Host", b"a.test"), DATE, (b"Range", b"bytes=0-9"))
    assert sent[3][1].startswith(b"AWS4-HMAC-SHA256 Credential=AKIAREAL/20260101/eu-north-1/s3/aws4_request, Signed")
    assert (len(sent), b"the-secret-key" in repr(found).encode()) == (4, False)
    assert not sign(tmp_path, *fields, (b"x-amz-content-sha256", b"UNSIGNED-PAYLOAD")).reads_body


def test_finds_echoes_of_the_session_token_and_keeps_a_range(tmp_path: Path) -> None:
    put_secret(tmp_path, "aws", ["a.test"], b"ASIAREAL:the-secret-key:the/session+token=")
    found = sign(tmp_path, claim(), DATE)
    assert (found.only_token, redact(found.echoes, b"<a>the/session+token=</a>")) == (
        True,
        b"<a>******************</a>",
    )
    assert redact(found.echoes, b"the-secret-key") == b"the-secret-key"
    assert found.into(((b"Range", b"bytes=0-9"),)) == ((b"Range", b"bytes=0-9"),)


def test_does_not_sign_with_a_value_that_has_no_keys(tmp_path: Path) -> None:
    put_secret(tmp_path, "aws", ["a.test"], b"the-secret-key")
    with pytest.raises(WithoutSecretError) as raised:
        sign(tmp_path, claim(), DATE)
    assert str(raised.value) == (
        "secret aws is not of the form ACCESS_KEY_ID:SECRET_ACCESS_KEY, with :SESSION_TOKEN if there is one"
    )
    assert (raised.value.hint, raised.value.fault) == ("agent-sandbox secret set aws --host a.test", True)


def test_only_a_signature_with_the_placeholder_is_replaced(tmp_path: Path) -> None:
    put_secret(tmp_path, "aws", ["a.test"], b"AKIAREAL:the-secret-key")
    own = (claim("AKIATHEIRS"), DATE)
    with pytest.raises(WithoutSecretError, match="the request already has the header `authorization`"):
        sign(tmp_path, *own)
    assert sign(tmp_path, *own, existing=Existing.KEEP).uses == ()
    assert sign(tmp_path, *own, existing=Existing.REPLACE).uses
    with pytest.raises(WithoutSecretError, match="has its own credential in `x-amz-security-token`"):
        sign(tmp_path, claim(), DATE, (b"X-Amz-Security-Token", b"theirs"))
    with pytest.raises(WithoutSecretError) as raised:
        sign(tmp_path, DATE)
    assert raised.value.hint.startswith("sign it with the placeholders")


def test_a_presigned_url_is_not_signed_again(tmp_path: Path) -> None:
    with pytest.raises(WithoutSecretError) as raised:
        sign(tmp_path, query=f"x-amz-credential=AKIA{AWS}%2F20260101")
    assert str(raised.value) == (
        "the request is a presigned URL (`?X-Amz-Credential`), which the proxy does not sign again"
    )
    assert raised.value.hint == "send the request itself, signed in its `Authorization` header"
