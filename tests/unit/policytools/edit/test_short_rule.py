import pytest

from agent_sandbox.policy import Effect
from agent_sandbox.policytools.edit.short_rule import read_short_rule
from agent_sandbox.problems import Problem, UserError
from table_tests import each

AT_PORT = (
    "`GET https://a.test:8443/**` allows reading; to allow every request, write "
    '`- {host: "a.test", ports: [8443]}` under `domains`'
)


@pytest.mark.parametrize(
    ("words", "text", "rule", "url"),
    [
        (
            ("get  https://a.test/v1/*",),
            "GET https://a.test/v1/*",
            "GET, HEAD https://a.test/v1/*",
            "https://a.test/v1/-any-",
        ),
        (
            ("POST", "http://A.test:8080/x?y=1"),
            "POST http://A.test:8080/x?y=1",
            "POST http://a.test/x?y=1 on port 8080",
            "http://a.test:8080/x?y=1",
        ),
        (
            ("put,delete", "https://b.test/x"),
            "PUT,DELETE https://b.test/x",
            "DELETE, PUT https://b.test/x",
            "https://b.test/x",
        ),
        (
            ("GET https://b.test",),
            "GET https://b.test",
            "GET, HEAD https://b.test/",
            "https://b.test/",
        ),
        (
            ("PUT https://b.test/**/x",),
            "PUT https://b.test/**/x",
            "PUT https://b.test/**/x",
            "https://b.test/-any-/x",
        ),
    ],
)
def test_parses_a_line_to_a_rule_and_a_matching_request(words: tuple[str, ...], text: str, rule: str, url: str) -> None:
    got = read_short_rule(Effect.ALLOW, words)
    assert (got.text, str(got.rule), got.request.url, got.section) == (text, rule, url, "allow")


@pytest.mark.parametrize(
    ("host", "url"),
    [("*.a.test", "https://x.a.test/"), (".a.test", "https://a.test/"), ("[2606::1]", "https://[2606::1]/")],
)
def test_a_whole_host_can_be_denied(host: str, url: str) -> None:
    got = read_short_rule(Effect.DENY, (host,))
    assert (got.text, got.request.url, got.section) == (host, url, "deny")


@pytest.mark.parametrize(("host", "url"), [("a.test", "https://a.test/"), ("*.a.test", "https://x.a.test/")])
def test_a_host_alone_is_an_entry_of_domains(host: str, url: str) -> None:
    got = read_short_rule(Effect.ALLOW, (host,))
    assert (got.text, str(got.rule), got.request.url, got.section) == (host, f"any method {host}", url, "domains")


HOW = "write a method and a whole address: `GET https://example.com/path`"


AS_HOST_SERVICE = "add it under `host_services`: `NAME: {to: gihub:443}`"


@each(
    ("effect", "text", "what", "hint"),
    [
        (Effect.ALLOW, "GTE https://a.test/", "unknown method 'GTE'", "did you mean `GET`?"),
        (
            Effect.ALLOW,
            "https://a.test",
            "not `METHOD URL`: 'https://a.test'",
            "add a method: `GET https://a.test`",
        ),
        (Effect.DENY, "POST", "a method without a URL", HOW),
        (Effect.ALLOW, "GET", "a method without a URL", HOW),
        (Effect.ALLOW, "a.test/x", "not `METHOD URL`: 'a.test/x'", HOW.replace("example.com/path", "a.test/x")),
        (
            Effect.ALLOW,
            "*",
            "`*` would allow every host",
            "name the hosts, or set `allow_all: true` to allow all of them",
        ),
        (Effect.ALLOW, "", "not `METHOD URL`: ''", HOW),
        (
            Effect.ALLOW,
            "a.test:8443",
            "a host with a port",
            AT_PORT,
        ),
        (
            Effect.ALLOW,
            "localhost:3000",
            "localhost can only be a private host",
            "add the Docker host under `host_services`: `NAME: {to: host:3000}`",
        ),
        (
            Effect.ALLOW,
            "[::1]:80",
            "::1 is not a public address (unspecified, loopback or v4-compatible)",
            "no policy can allow it",
        ),
        (
            Effect.DENY,
            "[2001:db8::1]:443",
            "a host with a port",
            "`https://[2001:db8::1]:443` denies every request to it",
        ),
        (
            Effect.ALLOW,
            "GET https://*/",
            "`*` would allow every host",
            "name the hosts, or set `allow_all: true` to allow all of them",
        ),
        (
            Effect.ALLOW,
            "github",
            "github can only be a private host",
            "put the service under `services`: `- github`",
        ),
        *(
            (
                effect,
                "gihub",
                "no such service",
                f"did you mean `github`? if gihub is a private host, {AS_HOST_SERVICE}",
            )
            for effect in Effect
        ),
        (
            Effect.DENY,
            "npm",
            "a service, not a host",
            "`agent-sandbox policy services show node` lists its hosts",
        ),
        (Effect.ALLOW, "GET https://a.test/?\udcff", "byte 0xff is not UTF-8", "save the file as UTF-8"),
        (Effect.ALLOW, f"GET https://a.test/?{'x' * 33_000}", "the target longer than 32768 characters", ""),
    ],
)
def test_rejects_an_invalid_rule_with_reason_and_hint(effect: Effect, text: str, what: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        read_short_rule(effect, (text,))
    assert caught.value.problems == (Problem(where=text, what=what, hint=hint),)
