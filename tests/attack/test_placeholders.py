"""API keys of the shipped services: the client has a placeholder, the server gets the key.

The test server answers 401 unless it gets the key as the real API expects it.
"""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_sandbox.policy.file.service_options import Auth
from agent_sandbox.policyfile import shipped_services
from agent_sandbox.proxy.secrets.store import put_secret
from capture_server import ok
from http2client import ask_over_http2
from proxy_pair import Pair, start_pair
from proxy_stand import get, read_answer

VALUE = "sk-real-0123456789-of-the-owner"
OTHER = "other.test"
CATALOGUE = {
    name: auth
    for name, layer in sorted(shipped_services().items())
    for auth in layer.spec.declared.values()
    if isinstance(auth, Auth) and auth.env
}
HOSTS = sorted({auth.host for auth in CATALOGUE.values()})
UNAUTHORISED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def policy_for(service: str, more: str = "") -> str:
    return f"version: 1\nservices: [{{name: {service}, secret: {{name: the.key{more}}}}}]\ndomains: [{OTHER}]\n"


def sample(service: str, host: str) -> tuple[str, str]:
    """Return method and target of a request that the service allows at its host."""
    entries = shipped_services()[service].spec.domains
    probe = next(entry.probe for entry in entries if str(entry.host) == host)
    method, _, url = probe.partition(" ")
    return method, url.removeprefix(f"https://{host}")


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "state" / "secrets").mkdir(parents=True)
    with start_pair(folder, policy_for("anthropic"), names=[*HOSTS, OTHER]) as pair:
        yield pair


@pytest.fixture
def pair(started: Pair) -> Pair:
    started.proxy.reload(policy_for("anthropic"))
    put_secret(secrets_of(started), "the.key", HOSTS, VALUE.encode())
    started.server.answers.clear()
    started.forget()
    return started


def secrets_of(pair: Pair) -> Path:
    return pair.proxy.folder / "state" / "secrets"


def placeholder(pair: Pair, env: str) -> str:
    """Return the placeholder that a shell in the sandbox exports."""
    script = (pair.proxy.folder / "state" / "ca" / "placeholders.sh").read_text()
    (found,) = re.findall(rf'^export {env}="\$\{{{env}:-([\w-]+)\}}"$', script, re.MULTILINE)
    return str(found)


def answer_401_without_the_key(pair: Pair, path: str, auth: Auth) -> None:
    wanted = f"Bearer {VALUE}" if auth.kind == "bearer" else VALUE

    def answer(stream: socket.socket, _: bytes) -> None:
        request = pair.server.requests[-1]
        fine = request.field(auth.header) == [wanted] and not any(map(request.field, auth.others))
        stream.sendall(ok(b"hello") if fine else UNAUTHORISED)

    pair.server.answers[path.partition("?")[0]] = answer


def credential(auth: Auth, text: str) -> str:
    return f"{auth.header}: {'Bearer ' if auth.kind == 'bearer' else ''}{text}"


def in_http2(auth: Auth, text: str) -> tuple[tuple[str, str], ...]:
    """Return the fields of a request over HTTP/2 with that credential."""
    name, _, value = credential(auth, text).partition(": ")
    return ("content-length", "0"), (name.lower(), value)


def ask(pair: Pair, host: str, path: str, *fields: str, method: str = "GET") -> tuple[int, str]:
    with pair.proxy.tls(host) as stream:
        request = get(path, host, "Accept: application/json", *fields, method=method)
        stream.sendall(request)
        status, body = read_answer(stream)
    return status, body.decode()


@pytest.mark.parametrize("service", CATALOGUE)
def test_injects_the_key_for_the_placeholder_or_for_no_credential(pair: Pair, service: str) -> None:
    auth = CATALOGUE[service]
    pair.proxy.reload(policy_for(service))
    method, path = sample(service, auth.host)
    answer_401_without_the_key(pair, path, auth)
    mine = placeholder(pair, auth.env)
    assert mine.startswith(auth.prefix)
    length = "Content-Length: 0"
    sent = [(length,), (length, credential(auth, mine)), *((length, f"{name}: Bearer {mine}") for name in auth.others)]
    assert [ask(pair, auth.host, path, *fields, method=method)[0] for fields in sent] == [200] * len(sent)
    assert ask_over_http2(pair.proxy, auth.host, path, *in_http2(auth, mine), method=method)[0] == "200"
    for name in auth.parameters:
        address = f"{path}{'&' if '?' in path else '?'}{name}={mine}"
        assert ask(pair, auth.host, address, length, method=method)[0] == 200
    assert mine.encode() not in bytes(pair.server.raw)


@pytest.mark.parametrize("service", CATALOGUE)
def test_an_attackers_key_does_not_reach_the_host_of_a_secret(pair: Pair, service: str) -> None:
    auth = CATALOGUE[service]
    pair.proxy.reload(policy_for(service))
    method, path = sample(service, auth.host)
    for own in (credential(auth, "sk-attacker"), *(f"{name}: Bearer sk-attacker" for name in auth.others)):
        status, body = ask(pair, auth.host, path, "Content-Length: 0", own, method=method)
        assert status == 403
        assert "where the proxy would inject the.key" in body
    answer = ask_over_http2(pair.proxy, auth.host, path, *in_http2(auth, "sk-attacker"), method=method)
    assert (answer[0], b"where the proxy would inject the.key" in answer[1]) == ("403", True)
    for name in auth.parameters:
        address = f"{path}{'&' if '?' in path else '?'}{name}=sk-attacker"
        assert ask(pair, auth.host, address, "Content-Length: 0", method=method)[0] == 403
    assert pair.server.requests == []


def test_on_existing_header_keeps_or_replaces_the_clients_own_key(pair: Pair) -> None:
    own = ("x-api-key: sk-own", "authorization: Bearer own")
    pair.proxy.reload(policy_for("anthropic", ", on_existing_header: keep"))
    assert ask(pair, "api.anthropic.com", "/v1/models", *own)[0] == 200
    pair.proxy.reload(policy_for("anthropic", ", on_existing_header: replace"))
    assert ask(pair, "api.anthropic.com", "/v1/models", *own)[0] == 200
    kept, replaced = pair.server.requests
    assert (kept.field("x-api-key"), kept.field("authorization")) == (["sk-own"], ["Bearer own"])
    assert (replaced.field("x-api-key"), replaced.field("authorization")) == ([VALUE], [])
    assert pair.proxy.line(path="/v1/models")["reason"].endswith("with the client's own credential")


@pytest.mark.parametrize(
    "field", ["x-api-key: {}", "Authorization: Bearer {}", "Authorization: token {}", "Cookie: key={}", "X-Other: {}"]
)
def test_denies_and_records_a_placeholder_sent_to_another_host(pair: Pair, field: str) -> None:
    mine = placeholder(pair, "ANTHROPIC_API_KEY")
    status, body = ask(pair, OTHER, "/x", field.format(mine))
    assert status == 403
    assert "has a placeholder, which the proxy replaces only where the policy and its owner say so" in body
    line = pair.proxy.line(path="/x")
    assert (line["decision"], line["cause"]) == ("deny", "injection")
    assert mine not in str(line)
    assert pair.server.requests == []


def test_denies_a_placeholder_in_a_url(pair: Pair) -> None:
    mine = placeholder(pair, "ANTHROPIC_API_KEY")
    for host in (OTHER, "api.anthropic.com"):
        assert ask(pair, host, f"/v1/models?key={mine}")[0] == 403
    assert pair.server.requests == []


def test_denies_a_placeholder_on_a_host_that_the_secret_is_not_bound_to(pair: Pair) -> None:
    put_secret(secrets_of(pair), "the.key", [OTHER], VALUE.encode())
    mine = placeholder(pair, "ANTHROPIC_API_KEY")
    status, body = ask(pair, "api.anthropic.com", "/v1/models", f"x-api-key: {mine}")
    assert status == 403
    assert "secret the.key is not bound to api.anthropic.com" in body
    status, _ = ask(pair, OTHER, "/x", f"x-api-key: {mine}")
    assert (status, pair.server.requests) == (403, [])


def test_denies_the_placeholder_of_another_secret(pair: Pair) -> None:
    both = "services: [{name: anthropic, secret: the.key}, {name: openai, secret: second.key}]"
    pair.proxy.reload(f"version: 1\n{both}\n")
    second = placeholder(pair, "OPENAI_API_KEY")
    assert second != placeholder(pair, "ANTHROPIC_API_KEY")
    status, body = ask(pair, "api.anthropic.com", "/v1/models", f"x-api-key: {second}")
    assert (status, pair.server.requests) == (403, [])
    assert "where the proxy would inject the.key" in body


# Mistakes that other products made.


def test_denies_a_path_that_only_begins_like_an_allowed_one(pair: Pair) -> None:
    for path in ("/v1/models-private", "/v1/modelsx", "/v1/messages/x", "/v1/messages-private", "/"):
        assert ask(pair, "api.anthropic.com", path)[0] == 403
        assert ask(pair, "api.anthropic.com", path, "Content-Length: 0", method="POST")[0] == 403
    assert pair.server.requests == []


def test_does_not_inject_the_secret_on_other_paths_of_its_host(pair: Pair) -> None:
    pair.proxy.reload(policy_for("anthropic").replace(f"[{OTHER}]", "[api.anthropic.com]"))
    assert ask(pair, "api.anthropic.com", "/v1/files")[0] == 200
    assert [request.field("x-api-key") for request in pair.server.requests] == [[]]


@pytest.mark.parametrize(
    "field", ["X-Forwarded-Proto: https", "X-Forwarded-Port: 443", "Forwarded: proto=https", "X-Forwarded-Ssl: on"]
)
def test_no_header_makes_plain_http_look_like_https(pair: Pair, field: str) -> None:
    host = "api.anthropic.com"
    with pair.proxy.connect() as connection:
        connection.sendall(get(f"http://{host}/v1/models", host, field))
        assert read_answer(connection)[0] == 403
    assert (pair.plain.requests, pair.server.requests) == ([], [])


def test_no_header_moves_a_secret_to_another_port(pair: Pair) -> None:
    host = "api.anthropic.com"
    for field in ("X-Forwarded-Port: 8443", f"X-Forwarded-Host: {host}:8443", f"X-Host: {OTHER}"):
        assert ask(pair, host, "/v1/models", field)[0] == 200
    with pair.proxy.tls(host) as stream:
        stream.sendall(get("/v1/models", f"{host}:8443"))
        assert read_answer(stream)[0] in {400, 403}
    assert {tuple(request.field("host")) for request in pair.server.requests} == {(host,)}


def test_a_reload_that_adds_a_secret_turns_on_inspection(pair: Pair) -> None:
    pair.proxy.reload(f"version: 1\ndomains: [{OTHER}, api.anthropic.com]\nsettings: {{inspect: false}}\n")
    pair.proxy.reload(f"{policy_for('anthropic')}settings: {{inspect: false}}\n")
    assert ask(pair, "api.anthropic.com", "/v1/models")[0] == 200
    assert pair.server.requests[0].field("x-api-key") == [VALUE]
