import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import pytest

from agent_sandbox.agents.login import Expiry, Login, Refresh, Token
from agent_sandbox.features.secrets.sources import login_document as subject
from table_tests import each

ACCESS, REFRESH = "sk-oat01-the-real-access-token", "sk-ort01-the-real-refresh-token"
PLACEHOLDERS = {"access": "sk-oat01-" + "a" * 36, "refresh": "sk-ort01-" + "r" * 36}
LOGIN = Login(
    service="a",
    hosts=("api.test",),
    file=".a/login.json",
    tokens={"access": Token(at="/o/access", begins="sk-oat01-"), "refresh": Token(at="/o/refresh", begins="sk-ort01-")},
    expires=Expiry(at="/o/expires", unit="milliseconds"),
    plan="/o/plan",
    copied=("/o/plan", "/o/scopes", "/o/missing", "/o/object"),
    refresh=Refresh(
        endpoints=("https://login.test/token",),
        answer={"access_token": "{access}", "scope": "{/o/scopes}", "expires_in": "{seconds}"},
    ),
    sign_in=("a", "login"),
)
DOCUMENT: dict[str, Any] = {
    "o": {
        "access": ACCESS,
        "refresh": REFRESH,
        "expires": 2_000_000_000_000,
        "plan": "max",
        "scopes": ["one", "two"],
        "object": {"x": 1},
        "email": "me@example.com",
    },
    "mcp": {"server": "token of another kind"},
}


def jwt(claims: object) -> str:
    parts = ({"alg": "RS256"}, claims)
    return ".".join((*(urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts), "c2ln"))


JWT = Login(
    service="b",
    hosts=("api.test",),
    file=".b/auth.json",
    tokens={"access": Token(at="/access", claims=("/exp", "/https:~1~1b.test/plan"))},
    expires=Expiry(at="/access", unit="jwt"),
    sign_in=("b", "login"),
)
CLAIMS = {"exp": 2_000_000_000, "email": "me@example.com", "https://b.test": {"plan": "plus", "user": "me"}}


def read(document: object, login: Login = LOGIN) -> subject.HostLogin:
    return subject.read_document(login, json.dumps(document).encode())


def test_reads_a_login_whose_repr_hides_the_token() -> None:
    found = read(DOCUMENT)
    assert (found.access, found.expires, found.plan) == (ACCESS, 2_000_000_000.0, "max")
    assert found.left(1_999_999_990.0) == 10.0
    assert ACCESS not in repr(found)


def without(*path: str, value: object = None) -> dict[str, Any]:
    document = json.loads(json.dumps(DOCUMENT))
    document["o"][path[0]] = value
    return dict(document)


@each(
    ("document", "why"),
    [
        (without("access"), "it has no access token at /o/access"),
        (without("access", value=""), "it has no access token at /o/access"),
        (without("access", value=["x" * 20]), "it has no access token at /o/access"),
        (without("access", value="two\nlines of it"), "it has no access token at /o/access"),
        (without("refresh", value="größer als acht"), "it has no refresh token at /o/refresh"),
        (without("expires"), "it has no expiry at /o/expires"),
        (without("expires", value="2033-05-18"), "it has no expiry at /o/expires"),
        (without("expires", value=True), "it has no expiry at /o/expires"),
        (without("expires", value=-1), "the expiry at /o/expires is not a date"),
        (without("expires", value=10**30), "the expiry at /o/expires is not a date"),
        ({"claude": DOCUMENT}, "it has no access token at /o/access"),
        ([], "it has no access token at /o/access"),
        ({"o": ACCESS}, "it has no access token at /o/access"),
    ],
)
def test_a_file_of_another_shape_is_refused_and_its_content_is_not_shown(document: object, why: str) -> None:
    with pytest.raises(subject.UnknownShapeError) as refused:
        read(document)
    assert str(refused.value) == why


@each("data", [b"", b"{", json.dumps(DOCUMENT).encode()[:-9], b"\xff", b"[" * 100_000])
def test_a_truncated_file_is_refused(data: bytes) -> None:
    with pytest.raises(subject.UnknownShapeError, match="it is not complete JSON"):
        subject.read_document(LOGIN, data)


def test_the_proxy_gets_the_access_token_and_never_the_refresh_token() -> None:
    said = json.loads(subject.for_proxy(LOGIN, read(DOCUMENT), now=1_999_999_000.0))
    assert said == {
        "value": ACCESS,
        "lifetime": 1000.0,
        "endpoints": ["https://login.test/token"],
        "begins": {"access": "sk-oat01-", "refresh": "sk-ort01-"},
        "answer": {"access_token": "{access}", "scope": "one two", "expires_in": "{seconds}"},
    }
    assert "value" not in json.loads(subject.for_proxy(LOGIN, None, now=0.0))


def test_the_sandbox_gets_placeholders_with_the_real_expiry_and_plan_and_nothing_else() -> None:
    assert json.loads(subject.for_sandbox(LOGIN, read(DOCUMENT), PLACEHOLDERS)) == {
        "o": {
            "access": PLACEHOLDERS["access"],
            "refresh": PLACEHOLDERS["refresh"],
            "expires": 2_000_000_000_000,
            "plan": "max",
            "scopes": ["one", "two"],
        }
    }


def test_other_sign_ins_in_the_sandboxs_file_are_kept() -> None:
    before = {"mcp": {"x": "own"}, "o": {"access": "its own", "more": 1}, "p": 1}
    after = json.loads(subject.for_sandbox(LOGIN, read(DOCUMENT), PLACEHOLDERS, json.dumps(before).encode()))
    assert (after["mcp"], after["o"]["more"], after["o"]["access"]) == ({"x": "own"}, 1, PLACEHOLDERS["access"])
    odd = json.loads(subject.for_sandbox(LOGIN, read(DOCUMENT), PLACEHOLDERS, b'{"o": "odd"}'))
    assert odd["o"]["access"] == PLACEHOLDERS["access"]
    assert "o" in json.loads(subject.for_sandbox(LOGIN, read(DOCUMENT), PLACEHOLDERS, b"{"))


def test_a_token_in_a_value_that_would_be_copied_is_refused() -> None:
    with pytest.raises(subject.UnknownShapeError, match="a token is also in a value that the sandbox would see"):
        subject.for_sandbox(LOGIN, read(without("plan", value=f"max {REFRESH}")), PLACEHOLDERS)


def test_placeholders_in_the_sandboxs_file_are_distinguished_from_its_own_tokens() -> None:
    mine = subject.for_sandbox(LOGIN, read(DOCUMENT), PLACEHOLDERS).encode()
    others = {role: text[:-1] + "x" for role, text in PLACEHOLDERS.items()}
    own = json.dumps(DOCUMENT).encode()
    assert subject.has_placeholders(LOGIN, mine, PLACEHOLDERS)
    assert not subject.has_placeholders(LOGIN, mine, others)
    assert not subject.has_placeholders(LOGIN, own, PLACEHOLDERS)
    assert not subject.has_placeholders(LOGIN, b"", PLACEHOLDERS)
    assert [subject.is_signed_in(LOGIN, data) for data in (mine, own, b"", b"[]", b"{}")] == [True, True, *[False] * 3]
    assert [subject.expiry_of(LOGIN, data) for data in (mine, b"", b"{}")] == [2_000_000_000.0, 0.0, 0.0]


def test_a_jwt_placeholder_has_only_the_named_claims() -> None:
    found = read({"access": jwt(CLAIMS)}, JWT)
    assert found.expires == 2_000_000_000.0
    begin = json.loads(subject.for_proxy(JWT, found, now=0.0))["begins"]["access"]
    _, claims, rest = begin.split(".")
    assert json.loads(urlsafe_b64decode(claims + "==")) == {"exp": 2_000_000_000, "https://b.test": {"plan": "plus"}}
    assert rest == ""
    text = subject.for_sandbox(JWT, found, {"access": begin + "a" * 36})
    assert json.loads(text) == {"access": begin + "a" * 36}
    assert subject.expiry_of(JWT, text.encode()) == 2_000_000_000.0


@each("token", ["no-jwt-at-all", "only.two-parts", "aaaaa.!.ccccc", jwt([]), "aaaaa.bm8.ccccc"])
def test_a_token_that_is_not_a_jwt_is_refused(token: str) -> None:
    with pytest.raises(subject.UnknownShapeError, match="the access token at /access is not a JWT"):
        read({"access": token}, JWT)
