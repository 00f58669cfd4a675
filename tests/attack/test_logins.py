"""Logins of the host machine: the client has placeholders, and refreshes them at its usual endpoint.

The test server answers 401 unless it gets the real token.
"""

import json
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from agent_sandbox.agents.catalogue import load_manifest
from agent_sandbox.features.secrets.sources.fetch import Host
from agent_sandbox.features.secrets.sources.login_document import for_proxy
from agent_sandbox.features.secrets.sources.login_host import Clock, current_login
from agent_sandbox.proxy.secrets.login import placeholders_of, put_login
from agent_sandbox.proxy.secrets.placeholder import key_beside, load_placeholders
from agent_sandbox.resources import data_root
from capture_server import ok
from http2client import ask_over_http2
from proxy_pair import Pair, start_pair
from proxy_stand import get, read_answer

MANIFEST = load_manifest(data_root() / "templates", "claude")
assert MANIFEST.login
assert MANIFEST.login.refresh
LOGIN, REFRESH = MANIFEST.login, MANIFEST.login.refresh
(API,) = LOGIN.hosts
ENDPOINT, OTHER = "platform.claude.com", "other.test"
TOKEN, NEXT = "sk-ant-oat01-real-0123456789", "sk-ant-oat01-real-9876543210"
DENIED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 5\r\nConnection: close\r\n\r\nno 41"
UNLIMITED = f"domains: [{OTHER}]\n"


def policy(more: str = "") -> str:
    return f"version: 1\nservices: [{{name: claude, login: {{name: claude.login{more}}}}}]\n{UNLIMITED}"


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("logins")
    for name in ("secrets", "run"):
        (folder / "state" / name).mkdir(parents=True)
    with start_pair(folder, policy(), names=[API, ENDPOINT, OTHER]) as pair:
        yield pair


@pytest.fixture
def pair(started: Pair) -> Pair:
    started.proxy.reload(policy())
    started.server.answers.clear()
    started.forget()
    return started


def sign_in(pair: Pair, token: str | None = TOKEN, seconds: float = 1000) -> Mapping[str, str]:
    """Give the proxy a token, as the host machine does. Return the placeholders."""
    secrets = pair.proxy.folder / "state" / "secrets"
    said = {
        "endpoints": REFRESH.endpoints,
        "begins": {role: one.begins for role, one in LOGIN.tokens.items()},
        "answer": {name: text for name, text in REFRESH.answer.items() if name != "scope"},
        "value": token,
        "lifetime": seconds,
    }
    login = put_login(secrets, "claude.login", [API], json.dumps(said).encode())
    return placeholders_of(login, load_placeholders(key_beside(secrets)))


class HostMachine:
    """A host machine with a wrong clock, and a client that refreshes its login at each run."""

    def __init__(self, folder: Path, *, off: float) -> None:
        self.off = off
        for name in ("project", "bin"):
            (folder / name).mkdir()
        self._host = Host(
            root=folder / "project",
            environ={"HOME": str(folder), LOGIN.folder: str(folder), "PATH": f"{folder}/bin:/usr/bin:/bin"},
        )
        self._file, self.client = folder / ".credentials.json", folder / "bin" / "claude"
        self.client.write_text(f"#!/bin/sh\ncat {folder}/next >{self._file}\n")
        self.client.chmod(0o755)
        self._file.touch(0o600)
        self._file.write_text(self._signed_in(TOKEN))
        (folder / "next").write_text(self._signed_in(NEXT, off=0))

    def _signed_in(self, token: str, off: float | None = None) -> str:
        expires = int((self._now() if off is None else time.time() + off) + 1000) * 1000
        tokens = {"accessToken": token, "refreshToken": "sk-ant-ort01-real", "expiresAt": expires, "scopes": []}
        return json.dumps({"claudeAiOauth": tokens})

    def _now(self) -> float:
        return time.time() + self.off

    def sync(self, pair: Pair) -> Mapping[str, str]:
        """Give the proxy the current token. Return the placeholders."""
        clock = Clock(now=self._now)
        said = for_proxy(LOGIN, current_login(LOGIN, self._host, clock=clock), now=clock.now())
        secrets = pair.proxy.folder / "state" / "secrets"
        login = put_login(secrets, "claude.login", [API], said)
        return placeholders_of(login, load_placeholders(key_beside(secrets)))


def answer_401_without(pair: Pair, *tokens: str) -> None:
    def answer(stream: socket.socket, _: bytes) -> None:
        sent = pair.server.requests[-1].field("authorization")
        stream.sendall(ok(b"hello") if sent in [[f"Bearer {token}"] for token in tokens] else DENIED)

    pair.server.answers["/v1/models"] = answer


def ask(pair: Pair, *fields: str, host: str = API, path: str = "/v1/models") -> tuple[int, str]:
    with pair.proxy.tls(host) as stream:
        stream.sendall(get(path, host, "Accept: application/json", *fields))
        status, body = read_answer(stream)
    return status, body.decode()


def refresh(pair: Pair, body: str, *fields: str, path: str = "/v1/oauth/token") -> tuple[int, str]:
    """Send a refresh request, its body in pieces."""
    data = body.encode()
    with pair.proxy.tls(ENDPOINT) as stream:
        head = get(path, ENDPOINT, "Accept: application/json", f"Content-Length: {len(data)}", *fields, method="POST")
        for piece in (head, data[:7], data[7:]):
            stream.sendall(piece)
        status, answer = read_answer(stream)
    return status, answer.decode()


def asked_for(pair: Pair) -> set[str]:
    """Return the paths that were requested from servers."""
    return {one.line.split()[1] for one in pair.server.requests}


def bearer(text: str) -> str:
    return f"Authorization: Bearer {text}"


def grant(token: str, kind: str = "refresh_token") -> str:
    return json.dumps({"grant_type": kind, "refresh_token": token, "client_id": "c"})


def test_injects_the_current_token_before_and_after_its_rotation(pair: Pair) -> None:
    mine = sign_in(pair)
    answer_401_without(pair, TOKEN)
    assert ask(pair, bearer(mine["access"]))[0] == 200
    authorization = ("authorization", f"Bearer {mine['access']}")
    assert ask_over_http2(pair.proxy, API, "/v1/models", authorization)[0] == "200"
    assert sign_in(pair, NEXT) == mine
    answer_401_without(pair, NEXT)
    assert ask_over_http2(pair.proxy, API, "/v1/models", authorization)[0] == "200"
    before = len(pair.server.requests)
    status, body = refresh(pair, grant(mine["refresh"]))
    assert (status, json.loads(body)["access_token"]) == (200, mine["access"])
    assert len(pair.server.requests) == before
    assert ask(pair, bearer(mine["access"]))[0] == 200


def test_an_expired_or_unknown_token_is_a_502_and_nothing_is_sent(pair: Pair) -> None:
    for token, seconds in ((TOKEN, 0.0), (None, 1000.0)):
        mine = sign_in(pair, token, seconds)
        for status, body in (ask(pair, bearer(mine["access"])), refresh(pair, grant(mine["refresh"]))):
            assert (status, json.loads(body)["hint"]) == (502, "agent-sandbox secret sync")
    assert pair.server.requests == []


def test_the_client_gets_the_servers_401_for_a_revoked_token(pair: Pair) -> None:
    mine = sign_in(pair)
    answer_401_without(pair, NEXT)
    assert ask(pair, bearer(mine["access"])) == (401, "no 41")


@pytest.mark.parametrize("off", [7200, -7200], ids=["ahead", "behind"])
def test_a_wrong_clock_on_the_host_machine_does_not_sign_the_client_out(pair: Pair, tmp_path: Path, off: float) -> None:
    machine = HostMachine(tmp_path, off=off)
    # The client dates its token by the same clock, so the remaining time is right.
    mine = machine.sync(pair)
    answer_401_without(pair, TOKEN)
    assert ask(pair, bearer(mine["access"]))[0] == 200
    assert 990 < json.loads(refresh(pair, grant(mine["refresh"]))[1])["expires_in"] <= 1000
    # Correct the clock. A token dated too far ahead expires before its date; the client then gets the 401.
    machine.off = 0
    answer_401_without(pair, NEXT)
    assert machine.sync(pair) == mine
    if off > 0:
        assert ask(pair, bearer(mine["access"])) == (401, "no 41")
        status, body = refresh(pair, grant(mine["refresh"]))
        assert (status, json.loads(body)["access_token"]) == (200, mine["access"])
        subprocess.run([machine.client], check=True)
        assert machine.sync(pair) == mine
    assert ask(pair, bearer(mine["access"]))[0] == 200
    assert asked_for(pair) == {"/v1/models"}


def test_a_client_whose_clock_is_ahead_refreshes_before_each_request(pair: Pair) -> None:
    mine = sign_in(pair, seconds=1000)
    answer_401_without(pair, TOKEN)
    for _ in range(3):
        status, body = refresh(pair, grant(mine["refresh"]))
        assert (status, json.loads(body)["refresh_token"]) == (200, mine["refresh"])
        # Not a date: the client adds it to its own clock's time.
        assert 990 < json.loads(body)["expires_in"] <= 1000
        assert ask(pair, bearer(mine["access"]))[0] == 200
    assert asked_for(pair) == {"/v1/models"}


def test_a_client_whose_clock_is_behind_sends_an_expired_placeholder_and_stays_signed_in(pair: Pair) -> None:
    mine = sign_in(pair, seconds=0)
    assert [ask(pair, bearer(mine["access"]))[0], refresh(pair, grant(mine["refresh"]))[0]] == [502, 502]
    assert sign_in(pair, NEXT) == mine
    answer_401_without(pair, NEXT)
    assert ask(pair, bearer(mine["access"]))[0] == 200
    assert asked_for(pair) == {"/v1/models"}


def test_a_placeholder_never_reaches_the_real_endpoint(pair: Pair) -> None:
    mine = sign_in(pair)
    bodies = [
        grant(mine["refresh"], "authorization_code"),
        grant(mine["access"]),
        f"token={mine['refresh']}",
        json.dumps({"nested": [{"token": mine["refresh"]}]}),
    ]
    assert [refresh(pair, body)[0] for body in bodies] == [403] * len(bodies)
    assert refresh(pair, "x", "Content-Encoding: gzip")[0] == 403
    # The policy allows no other path of the host, even with the same beginning.
    more = [refresh(pair, grant(mine["refresh"]), path=f"/v1/oauth/token{end}")[0] for end in ("-private", "/more")]
    assert more == [403, 403]
    assert pair.server.requests == []


def test_a_clients_own_sign_in_reaches_the_real_endpoint_without_our_token(pair: Pair) -> None:
    sign_in(pair)
    refresh(pair, grant("its own refresh token"))
    (request,) = pair.server.requests
    assert request.field("authorization") == []
    assert TOKEN.encode() not in bytes(pair.server.raw)


def test_sends_the_token_only_to_its_hosts(pair: Pair) -> None:
    mine = sign_in(pair)
    for fields in ((), (bearer(mine["access"]),), (f"X-Other: {mine['access']}",)):
        ask(pair, *fields, host=OTHER, path="/v1/models")
    for fields in ((f"X-Forwarded-Host: {API}",), (f"X-Original-URL: https://{API}/v1/models",)):
        ask(pair, *fields, host=OTHER, path="/v1/models")
    assert TOKEN.encode() not in bytes(pair.server.raw)
    assert mine["access"].encode() not in bytes(pair.server.raw)


def test_denies_creating_an_api_key_with_the_token(pair: Pair) -> None:
    mine = sign_in(pair)
    path, fields = "/api/oauth/claude_cli/create_api_key", (bearer(mine["access"]), "Content-Length: 0")
    with pair.proxy.tls(API) as stream:
        stream.sendall(get(path, API, *fields, method="POST"))
        assert read_answer(stream)[0] == 403
    assert pair.server.requests == []


def test_forwarded_headers_do_not_make_the_proxy_send_the_token_over_plain_http(pair: Pair) -> None:
    mine = sign_in(pair)
    request = get("/v1/models", API, bearer(mine["access"]), "X-Forwarded-Proto: https", "Forwarded: proto=https")
    answer = pair.proxy.say(request.replace(b"GET /", f"GET http://{API}/".encode()))
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert bytes(pair.plain.raw) == b""


def test_the_clients_own_bearer_token_is_denied_unless_the_policy_keeps_it(pair: Pair) -> None:
    sign_in(pair)
    assert ask(pair, bearer("environment-secret"))[0] == 403
    assert pair.server.requests == []
    pair.proxy.reload(policy(", on_existing_header: keep"))
    ask(pair, bearer("environment-secret"))
    (request,) = pair.server.requests
    assert request.field("authorization") == ["Bearer environment-secret"]


def test_denies_an_attackers_api_key_beside_the_placeholder(pair: Pair) -> None:
    mine = sign_in(pair)
    status, body = ask(pair, bearer(mine["access"]), "x-api-key: sk-ant-api03-attacker")
    assert (status, "x-api-key" in body) == (403, True)
    assert pair.server.requests == []


def test_adding_or_removing_a_login_takes_effect_without_a_restart(pair: Pair) -> None:
    secrets = pair.proxy.folder / "state" / "secrets"
    for path in secrets.iterdir():
        path.unlink()
    assert ask(pair)[0] == 403
    answer_401_without(pair, TOKEN)
    mine = sign_in(pair)
    assert ask(pair, bearer(mine["access"]))[0] == 200
    (secrets / "claude.login").unlink()
    assert ask(pair, bearer(mine["access"]))[0] == 403
