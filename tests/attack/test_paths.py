"""Paths and queries: rows P1-P7, B4 and L1 of the attack list. The decided bytes are forwarded."""

import json
from pathlib import Path

import pytest

from attack_stand import Stand
from proxy_stand import ProxyProcess, get


@pytest.mark.parametrize(
    "path",
    [
        "/api/../admin",
        "/api/%2e%2e/admin",
        "/api/%2E./admin",
        "/api/..%2fadmin",
        "/api/..%5cadmin",
        "/api/.%2e/admin",
        "/api/..;/admin",
        "/api/%252e%252e/admin/../x",
        "/./api/x",
        "//evil.test/api/",
        "/api//x",
        "/api/x#/y",
        "/api/%00",
        "/api/%zz",
        "/api/%",
        "/api/\\..\\admin",
        "/api/caf\xe9",
        "/api/\0",
        "/api/\x01",
        "/api/\x7f",
        "/api%2f..",
        "/api/%c0%ae%c0%ae/admin",
        "/api/%e0%80%ae%e0%80%ae/admin",
        "/api/%f0%80%80%af../admin",
        "/api/x%F0%80%80%AFadmin",
        "/api/x%E0%80%AFadmin",
    ],
)
def test_an_ambiguous_path_is_a_400(stand: Stand, path: str) -> None:
    answer = stand.proxy.ask("allowed.test", get(path, "allowed.test"))
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\nx-agent-sandbox: blocked\r\n")
    stand.proxy.line(decision="deny", host="allowed.test")
    stand.assert_nothing_got_out()


@pytest.mark.unasked
def test_a_scoped_package_on_an_unlisted_host_is_denied_because_of_the_host(stand: Stand) -> None:
    answer = json.loads(stand.proxy.ask("other.test", get("/@scope%2Fname", "other.test")).partition(b"\r\n\r\n")[2])
    assert (answer["reason"], "encoded_slash: true" in answer["hint"]) == ("no rule allows host other.test", True)
    assert stand.proxy.line(decision="deny", host="other.test")["path"] == "/@scope%2Fname"
    stand.assert_nothing_got_out()


@pytest.mark.parametrize("path", ["/apix", "/api-evil/", "/API/x", "/ap", "/", "/admin", "/api/secret/x", "/api%2Fx"])
def test_a_path_outside_the_rule_is_denied(stand: Stand, path: str) -> None:
    answer = stand.proxy.ask("allowed.test", get(path, "allowed.test"))
    assert answer[:12] in (b"HTTP/1.1 403", b"HTTP/1.1 400")
    stand.proxy.line(decision="deny")
    stand.assert_nothing_got_out()


@pytest.mark.parametrize(
    ("written", "forwarded"),
    [
        ("/%61pi/", "/api/"),
        ("/api/%7Ex", "/api/~x"),
        ("/api/a%20b", "/api/a%20b"),
        ("/api/x?a=../b&c=%2e%2e", "/api/x?a=../b&c=%2e%2e"),
        ("/api/x?", "/api/x"),
    ],
)
def test_forwards_the_canonical_path(stand: Stand, written: str, forwarded: str) -> None:
    answer = stand.proxy.ask("allowed.test", get(written, "allowed.test"))
    assert answer.startswith(b"HTTP/1.1 200")
    assert stand.allowed.wait_for(1)[0].line == f"GET {forwarded} HTTP/1.1"


@pytest.mark.parametrize(("url", "path"), [("http://allowed.test", "/"), ("http://allowed.test?x=/api/", "/")])
def test_a_url_without_a_path_requests_the_root_path(stand: Stand, url: str, path: str) -> None:
    assert stand.proxy.say(get(url, "allowed.test")).startswith(b"HTTP/1.1 403")
    stand.proxy.line(decision="deny", host="allowed.test", path=path)
    stand.assert_nothing_got_out()


def test_a_path_of_64_kib_is_too_long(stand: Stand) -> None:
    answer = stand.proxy.ask("allowed.test", get("/api/" + "x" * 65_536, "allowed.test"))
    assert answer[:12] in (b"HTTP/1.1 431", b"HTTP/1.1 414", b"HTTP/1.1 400")
    stand.proxy.line(event="malformed")
    stand.assert_nothing_got_out()


@pytest.mark.parametrize(
    "request_",
    [
        b'GET http://evil.test/%0a{"decision":"allow"} HTTP/1.1\r\nHost: evil.test\r\n\r\n',
        b'GET http://evil.test/x"}\x0b{"decision":"allow"} HTTP/1.1\r\nHost: evil.test\r\n\r\n',
        b"GET http://evil.test/\x1b[31m HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"GET http://evil.test/\xe2\x80\xae HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"GET http://evil.test/\xff\xfe HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"G\xc3\x89T http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    ],
)
def test_client_bytes_cannot_forge_or_break_an_audit_record(stand: Stand, request_: bytes) -> None:
    assert stand.proxy.say(request_)[:12] in (b"HTTP/1.1 403", b"HTTP/1.1 400")
    line = stand.proxy.line(decision="deny")
    raw = json.dumps(line)
    assert raw.isascii()
    assert not any(ord(char) < 32 for char in raw)
    assert len(stand.proxy.lines) == 1


def test_a_url_of_a_megabyte_leaves_a_short_audit_record(stand: Stand) -> None:
    answer = stand.proxy.say(get("http://evil.test/" + "x" * 1_000_000, "evil.test"))
    assert answer.startswith(b"HTTP/1.1 431")
    assert len(json.dumps(stand.proxy.line(event="malformed"))) < 1_000


def test_audit_records_contain_no_query_header_or_body_values(stand: Stand) -> None:
    secrets = ("Authorization: Bearer hunter2", "Cookie: hunter2", "X-Api-Key: hunter2", "Content-Length: 7")
    for path in ("/api/x", "/denied"):
        request = get(f"{path}?token=hunter2", "allowed.test", *secrets, method="POST") + b"hunter2"
        stand.proxy.ask("allowed.test", request)
        stand.proxy.line(path=path)
    assert "hunter2" not in json.dumps(stand.proxy.lines)


def test_denials_by_query_or_header_record_no_values(tmp_path: Path) -> None:
    policy = """version: 1
domains:
- host: allowed.test
  rules:
  - {path: {exact: /q}, query: {exact: {page: "1"}}}
  - {path: {exact: /h}, headers: {authorization: none}}
"""
    with ProxyProcess(tmp_path, policy) as proxy:
        proxy.say(get("http://allowed.test/q?page=1&token=hunter2&hunter2", "allowed.test"))
        proxy.say(get("http://allowed.test/h", "allowed.test", "Authorization: Bearer hunter2"))
        reason = proxy.line(path="/q")["reason"]
        proxy.line(path="/h")
        assert reason.startswith("host allowed.test is allowed, query page=...&token=...&... is not: ")
        assert "hunter2" not in json.dumps(proxy.lines) + proxy.command("denials").stdout


@pytest.mark.parametrize("path", ["/api/secret", "/api/Secret./x", "/api/secret%20/x", "/api/%2573ecret/x"])
def test_another_spelling_of_a_denied_path_is_denied(stand: Stand, path: str) -> None:
    answer = stand.proxy.ask("allowed.test", get(path, "allowed.test"))
    assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\nx-agent-sandbox: blocked\r\n")
    assert stand.proxy.line(decision="deny", host="allowed.test")["rule"] == "policy.yaml:16"
    stand.assert_nothing_got_out()
