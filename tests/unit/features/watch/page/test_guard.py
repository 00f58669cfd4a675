"""Requests to the page's server, over its real socket."""

import json

from agent_sandbox.features.watch.page.guard import HEADERS, cookie_name
from agent_sandbox.features.watch.page.sessions import TOKEN_SECONDS
from page_stand import PageStand
from table_tests import each

READING = ("GET /api/news", "GET /api/hosts", "GET /api/policy")
API = (*READING, "POST /api/answer", "POST /api/end", "POST /api/rule", "POST /api/write")
EVERYTHING = ("GET /", "GET /page.js", "POST /api/session", *API)


@each(
    ("what", "host"),
    [
        ("a name that was rebound to this address", "evil.test:{port}"),
        ("a name that leads here", "localhost:{port}"),
        ("another port", "127.0.0.1:1"),
        ("no port", "127.0.0.1"),
        ("another spelling", "127.1:{port}"),
        ("a dot at the end", "127.0.0.1.:{port}"),
        ("IPv6", "[::1]:{port}"),
        ("the name by which a container reaches this machine", "host.docker.internal:{port}"),
        ("a user", "127.0.0.1:{port}@evil.test"),
    ],
)
def test_refuses_a_request_with_another_host(served: PageStand, what: str, host: str) -> None:
    session = served.begin()
    for line in EVERYTHING:
        said = served.send(line, {**session, "Host": host.format(port=served.port)}, body={})
        assert (said.status, said.text) == (421, f"this server answers only at http://{served.authority}/"), what


@each(
    ("what", "headers", "line"),
    [
        ("another site", {"Origin": "https://evil.test"}, "POST /api/answer"),
        ("a server in the sandbox, on another port", {"Origin": "http://127.0.0.1:3000"}, "POST /api/answer"),
        ("a file, or a frame without an origin", {"Origin": "null"}, "POST /api/answer"),
        ("no origin", {"Origin": None}, "POST /api/answer"),
        ("another origin that reads", {"Origin": "http://127.0.0.1:3000"}, "GET /api/news"),
        ("another origin with a token", {"Origin": "http://127.0.0.1:3000"}, "POST /api/session"),
        ("another site that embeds", {"Sec-Fetch-Site": "cross-site"}, "GET /page.js"),
        ("another port that embeds", {"Sec-Fetch-Site": "same-site"}, "GET /page.js"),
        ("another port that opens a window", {"Sec-Fetch-Site": "same-site"}, "GET /"),
        ("another site that opens a window", {"Sec-Fetch-Site": "cross-site"}, "GET /"),
        ("a typed address of what only the page asks", {"Sec-Fetch-Site": "none"}, "GET /api/news"),
    ],
)
def test_refuses_a_request_from_another_site(
    served: PageStand, what: str, headers: dict[str, str | None], line: str
) -> None:
    body = {"token": served.sessions.new_token()}
    said = served.send(line, {**served.begin(), **headers}, body=body)
    assert said.status == 403, what
    assert "another" in said.text, what


@each(
    ("what", "change"),
    [
        ("no session", {"Cookie": None, "Agent-Sandbox-Key": None}),
        ("the cookie alone, which a server on another port can have", {"Agent-Sandbox-Key": None}),
        ("the key alone", {"Cookie": None}),
        ("a wrong key", {"Agent-Sandbox-Key": "x" * 43}),
        ("letters that are not ASCII", {"Agent-Sandbox-Key": "\xe9"}),
        ("an empty key", {"Agent-Sandbox-Key": ""}),
        ("a damaged cookie", {"Cookie": "=;\x07;agent"}),
        ("the cookie of another port", {"Cookie": "agent-sandbox-ui-1=x"}),
    ],
)
def test_refuses_a_request_without_a_session(served: PageStand, what: str, change: dict[str, str | None]) -> None:
    session = served.begin()
    for line in API:
        said = served.send(line, {**session, **change}, body={})
        assert said.status in {400, 401}, (what, line)
        assert "Enter" in said.text or said.text == "Invalid HTTP request received.", (what, line)


def test_refuses_a_cookie_with_the_key_of_another_session(served: PageStand) -> None:
    one, other = served.begin(), served.begin()
    said = served.send("POST /api/answer", {**one, "Agent-Sandbox-Key": other["Agent-Sandbox-Key"]}, body={})
    assert said.status == 401
    assert served.send("POST /api/answer", one, body={}).status == 409
    assert served.send("POST /api/answer", other, body={}).status == 409


def test_only_the_newest_address_works_once_and_for_ten_minutes(served: PageStand) -> None:
    def begin(token: object) -> int:
        return served.send("POST /api/session", body={"token": token}).status

    older = served.sessions.new_token()
    token = served.sessions.new_token()
    assert (begin(older), begin(token), begin(token)) == (403, 200, 403)
    late = served.sessions.new_token()
    served.now += TOKEN_SECONDS
    assert begin(late) == 403
    assert [begin(said) for said in ("", None, 3, "\udc80", "x" * 5000)] == [403] * 5


def test_the_cookie_is_httponly_samesite_and_ends_with_the_browser(served: PageStand) -> None:
    said = served.send("POST /api/session", body={"token": served.sessions.new_token()})
    name, *attributes = said.headers["set-cookie"].split("; ")
    assert name.startswith(f"{cookie_name(served.port)}=")
    assert sorted(attributes) == ["HttpOnly", "Path=/", "SameSite=strict"]
    assert json.loads(said.text).keys() == {"key"}
    assert json.loads(said.text)["key"] not in said.headers["set-cookie"]


def test_every_response_has_the_security_headers(served: PageStand) -> None:
    for line in (*EVERYTHING, "GET /nothing", "PUT /"):
        found = served.send(line, {"Sec-Fetch-Site": "same-origin"}, body={}).headers
        assert dict(HEADERS).items() <= found.items(), line
        assert "access-control-allow-origin" not in found
        assert "server" not in found
    policy = dict(HEADERS)["content-security-policy"]
    assert "unsafe" not in policy
    assert "http" not in policy


def test_answers_only_get_and_post(served: PageStand) -> None:
    for method in ("PUT", "HEAD", "OPTIONS", "TRACE", "CONNECT"):
        assert served.send(f"{method} /").status == 405
    assert served.send("GET /../../etc/passwd").status == 404
    assert served.send("GET /__init__.py").status == 404


def test_answers_requests_of_the_page(served: PageStand) -> None:
    for line in ("GET /", "GET /page.js", "GET /page.css", "GET /icon.svg"):
        assert served.send(line, {"Sec-Fetch-Site": "same-origin"}).status == 200
    assert served.send("GET /", {"Sec-Fetch-Site": "none"}).status == 200
