import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent_sandbox.policy import Request, parse_request
from agent_sandbox.problems import UserError
from agent_sandbox.proxy.secrets import login as subject
from agent_sandbox.proxy.secrets.placeholder import Placeholders
from agent_sandbox.proxy.secrets.store import (
    Secret,
    Unresolved,
    listed,
    memory_of,
    put_secret,
    read_secret,
    remove_secret,
    uptime,
)
from table_tests import each

TOKEN = "sk-ant-oat01-the-real-token"
PLACEHOLDERS = Placeholders(b"k" * 32)
ANSWER = {"token_type": "Bearer", "access_token": "{access}", "refresh_token": "{refresh}", "expires_in": "{seconds}"}
DESCRIBED: dict[str, Any] = {
    "endpoints": ["https://login.test/v1/oauth/token"],
    "begins": {"access": "sk-ant-oat01-", "refresh": "sk-ant-ort01-"},
    "answer": ANSWER,
}
NO_TOKEN = {**DESCRIBED, "lifetime": None}
STRAY = "the body has a placeholder, which the proxy accepts only as the `refresh_token` of a refresh request"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("secrets", "run"):
        (tmp_path / name).mkdir()
    return tmp_path / "secrets"


def put(folder: Path, name: str = "a.login", /, **said: object) -> dict[str, str]:
    """Store a login and return its placeholders."""
    data = {**DESCRIBED, "value": TOKEN, "lifetime": 1000, **said}
    return subject.placeholders_of(
        subject.put_login(folder, name, ["api.test"], json.dumps(data).encode()), PLACEHOLDERS
    )


def asked(
    *,
    method: str = "POST",
    host: str = "login.test",
    target: str = "/v1/oauth/token",
    scheme: str = "https",
    port: int = 443,
    headers: tuple[tuple[str, str], ...] = (),
) -> Request:
    return replace(parse_request(scheme=scheme, host=host, port=port, method=method, target=target), headers=headers)


def refresh(token: str, grant: str = "refresh_token") -> bytes:
    return json.dumps({"grant_type": grant, "refresh_token": token, "client_id": "c"}).encode()


def test_a_refresh_request_is_answered_with_placeholders_while_the_token_is_valid(folder: Path) -> None:
    held = put(folder)
    refresher = subject.Refresher(folder, PLACEHOLDERS)
    assert refresher.reads(asked())
    answer = dict(refresher.answer(asked(), refresh(held["refresh"])) or {})
    assert 990 < int(str(answer.pop("expires_in"))) <= 1000
    assert answer == {"token_type": "Bearer", "access_token": held["access"], "refresh_token": held["refresh"]}
    assert held["access"].startswith("sk-ant-oat01-")
    form = f"grant_type=refresh_token&refresh_token={held['refresh']}".encode()
    assert refresher.answer(asked(), form)


def test_keeps_the_access_token_only_in_memory_and_the_refresh_token_nowhere(folder: Path) -> None:
    held = put(folder, refresh_token="the-real-refresh-token")
    found = read_secret(folder, "a.login")
    assert isinstance(found, Secret)
    assert (found.hosts, found.value) == (("api.test",), TOKEN)
    assert found.until == pytest.approx(uptime() + 1000, abs=5)
    assert TOKEN not in (folder / "a.login").read_text()
    assert TOKEN in (memory_of(folder) / "a.login").read_text()
    assert len(set(held.values())) == 2
    written = [file for file in folder.parent.rglob("*") if file.is_file()]
    assert not [file for file in written if b"the-real-refresh-token" in file.read_bytes()]


def test_placeholders_differ_per_login_role_and_sandbox(folder: Path) -> None:
    login = subject.put_login(folder, "a.login", ["api.test"], json.dumps(NO_TOKEN).encode())
    other = subject.put_login(folder, "b.login", ["api.test"], json.dumps(NO_TOKEN).encode())
    elsewhere = Placeholders(b"x" * 32)
    found = [subject.placeholders_of(one, key) for one in (login, other) for key in (PLACEHOLDERS, elsewhere)]
    assert len({text for one in found for text in one.values()}) == 8


@each(
    "body",
    [
        b'{"grant_type": "authorization_code", "code": "c"}',
        b'{"grant_type": "refresh_token", "refresh_token": "the client\'s own"}',
        b"grant_type=refresh_token&refresh_token=own",
        b"",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_does_not_answer_a_clients_own_sign_in(body: bytes, folder: Path) -> None:
    put(folder)
    refresher = subject.Refresher(folder, PLACEHOLDERS)
    assert refresher.reads(asked())
    assert refresher.answer(asked(), body) is None


@each("grant", ["authorization_code", "password", "client_credentials", "", "REFRESH_TOKEN", "refresh_token "])
def test_refuses_other_grant_types(grant: str, folder: Path) -> None:
    held = put(folder)
    refresher = subject.Refresher(folder, PLACEHOLDERS)
    assert refresher.reads(asked())
    with pytest.raises(subject.RefusedRefreshError) as refused:
        refresher.answer(asked(), refresh(held["refresh"], grant))
    assert (str(refused.value), refused.value.fault) == (STRAY, False)


def test_a_placeholder_anywhere_in_a_body_never_reaches_the_real_endpoint(folder: Path) -> None:
    held = put(folder)
    refresher = subject.Refresher(folder, PLACEHOLDERS)
    assert refresher.reads(asked())
    escaped = "".join(f"\\u{ord(sign):04x}" for sign in held["refresh"])
    percent = "".join(f"%{ord(sign):02x}" for sign in held["refresh"])
    bodies = [
        refresh(held["access"]),
        json.dumps({"token": held["refresh"]}).encode(),
        json.dumps([[{held["access"]: 1}]]).encode(),
        f'{{"token": "{escaped}"}}'.encode(),
        f"token={percent}".encode(),
        b"--b\r\n\r\n" + held["refresh"].encode(),
    ]
    for body in bodies:
        with pytest.raises(subject.RefusedRefreshError, match="the body has a placeholder"):
            refresher.answer(asked(), body)
    with pytest.raises(subject.RefusedRefreshError, match="the proxy cannot read an encoded body here"):
        refresher.answer(asked(headers=(("Content-Encoding", "gzip"),)), b"\x1f\x8b")


@each(
    "request_",
    [
        asked(method="GET"),
        asked(scheme="http", port=80),
        asked(port=8443),
        asked(host="login.test.evil.test"),
        asked(host="evil.test"),
        asked(target="/v1/oauth/token-private"),
        asked(target="/v1/oauth/token/more"),
        asked(target="/v1/oauth"),
    ],
)
def test_only_the_exact_endpoint_is_answered(request_: Request, folder: Path) -> None:
    put(folder)
    assert not subject.Refresher(folder, PLACEHOLDERS).reads(request_)


@each(
    ("said", "why"),
    [
        ({"value": None}, "its source failed"),
        ({"lifetime": 0}, "it has expired"),
        ({"lifetime": -1e9}, "it has expired"),
    ],
)
def test_a_refresh_without_a_valid_token_is_a_fault_with_a_hint(said: dict[str, Any], why: str, folder: Path) -> None:
    held = put(folder, **said)
    refresher = subject.Refresher(folder, PLACEHOLDERS)
    assert refresher.reads(asked())
    with pytest.raises(subject.RefusedRefreshError) as refused:
        refresher.answer(asked(), refresh(held["refresh"]))
    assert str(refused.value) == f"secret a.login has no value now: {why}"
    assert (refused.value.hint, refused.value.fault) == ("agent-sandbox secret sync", True)
    assert read_secret(folder, "a.login") == Unresolved(name="a.login", hosts=("api.test",), why=why)


def test_a_token_without_an_expiry_is_valid_for_an_hour(folder: Path) -> None:
    held = put(folder, lifetime=None)
    refresher = subject.Refresher(folder, PLACEHOLDERS)
    assert refresher.reads(asked())
    answer = refresher.answer(asked(), refresh(held["refresh"])) or {}
    assert answer["expires_in"] == 3600


def test_a_login_takes_effect_at_once_and_ends_with_its_removal(folder: Path) -> None:
    refresher = subject.Refresher(folder, PLACEHOLDERS)
    put_secret(folder, "key", ["api.test"], b"correct horse")
    assert not refresher.reads(asked())
    put(folder)
    assert refresher.reads(asked())
    assert [one.name for one in listed(folder)] == ["a.login", "key"]
    remove_secret(folder, "a.login")
    assert not refresher.reads(asked())
    assert not subject.Refresher(None).reads(asked())
    assert not subject.Refresher(folder / "none").reads(asked())


def test_a_login_that_does_not_hold_the_placeholder_does_not_answer(folder: Path) -> None:
    mine, other = put(folder), put(folder, "b.login", endpoints=["https://other.test/token"])
    refresher = subject.Refresher(folder, PLACEHOLDERS)
    assert refresher.reads(asked(host="other.test", target="/token"))
    with pytest.raises(subject.RefusedRefreshError, match="the body has a placeholder"):
        refresher.answer(asked(), refresh(other["refresh"]))
    with pytest.raises(subject.RefusedRefreshError, match="the body has a placeholder"):
        refresher.answer(asked(host="other.test", target="/token"), refresh(mine["refresh"]))
    assert refresher.answer(asked(), refresh(mine["refresh"]))


@each(
    ("data", "why"),
    [
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("[]", "`endpoints`, `begins` or `answer` is missing"),
        ({"endpoints": []}, "`endpoints` or `begins` is not valid"),
        ({"endpoints": ["https://a.test/t"] * 5}, "`endpoints` or `begins` is not valid"),
        ({"endpoints": ["http://a.test/t"]}, "an endpoint is not `https://HOST/PATH`"),
        ({"endpoints": ["https://a.test/t?x=1"]}, "an endpoint is not `https://HOST/PATH`"),
        ({"endpoints": ["https://*.test/t"]}, "not a host name: '*.test'"),
        ({"endpoints": ["https://a.test:8443/t"]}, "not an IPv6 address: 'a.test:8443'"),
        ({"begins": {"refresh": ""}}, "`endpoints` or `begins` is not valid"),
        ({"begins": {"access": 'a"'}}, "`endpoints` or `begins` is not valid"),
        ({"begins": {"access": "a\r\n"}}, "`endpoints` or `begins` is not valid"),
        ({"begins": {"access": "", "root": ""}}, "`endpoints` or `begins` is not valid"),
        ({"answer": {"a-b": "c"}}, "`answer` is not valid"),
        ({"answer": {"a": 1}}, "`answer` is not valid"),
        ({"answer": {f"a{'b' * number}": "" for number in range(17)}}, "`answer` is not valid"),
        ({"lifetime": "soon"}, "`lifetime` is not a number"),
        ({"lifetime": True}, "`lifetime` is not a number"),
    ],
)
def test_an_invalid_login_is_rejected(data: str | dict[str, object], why: str, folder: Path) -> None:
    said = data if isinstance(data, str) else json.dumps({**DESCRIBED, **data})
    with pytest.raises(UserError) as rejected:
        subject.put_login(folder, "a.login", ["api.test"], said.encode())
    assert [problem.what for problem in rejected.value.problems] == [f"not a login: {why}"]
    assert list(folder.iterdir()) == []


def test_a_damaged_file_is_not_read_as_a_login(folder: Path) -> None:
    for name, text in (("a", "{"), ("b", "[]"), ("c", '{"login": {"endpoints": 1}}')):
        (folder / name).write_text(text)
    assert not subject.Refresher(folder, PLACEHOLDERS).reads(asked())


def test_the_folder_is_read_again_only_when_it_has_changed(folder: Path) -> None:
    refresher = subject.Refresher(folder, PLACEHOLDERS)
    put(folder)
    os.utime(folder, (1.0, 1.0))
    assert refresher.reads(asked())
    (folder / "a.login").write_text("{}")  # in place: the folder stays as it was
    assert refresher.reads(asked())
    os.utime(folder, (2.0, 2.0))
    assert not refresher.reads(asked())
