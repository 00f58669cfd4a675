import pytest

from agent_sandbox.policy.file.spec import PolicySpec
from agent_sandbox.policy.match.other_protocols import HINT
from agent_sandbox.policyfile.parse.checking import ELSEWHERE, nearest
from agent_sandbox.policyfile.parse.parsing import check_document
from agent_sandbox.policyfile.text.document import Document, parse_document
from agent_sandbox.problems import UserError
from table_tests import each

KNOWN_ABOVE = (
    "known: allow, allow_all, date, deny, domains, domains_file, host_services, reason, services, settings, tests, "
    "tighten, title, version"
)

CA_NAME = "p:1:27: `ca` has to be in the directory of the policy file; write only the file name: `ca: corp-ca.pem`"
NOTHING_BETWEEN = "p:1:22: `upstream` has neither `proxy` nor `ca`; write `proxy`, `ca`, or both"
EVERY = "remove `methods`: without it, a rule matches every method; without any condition, remove the rule too"
OVER_HTTPS = "git uses https in the sandbox: allow the host `git.test`"
ONLY_HTTP = f"and only HTTP and TLS leave the sandbox; {HINT.format('write `schemes: [http]` beside `to`')}"
IN_RULES = (
    f"and only HTTP and TLS leave the sandbox; {HINT.format('write `rules: [{schemes: [http]}]` beside `ports`')}"
)
NO_QUESTION = (
    "`ask` is not possible with `graphql`: a person is asked before the body arrives; "
    "ask about the whole path in a rule without `graphql`"
)
SIZES = "write a number of bytes, or a number with B, KB, MB, GB, KiB, MiB, GiB, such as `1MiB`"


def check(text: str) -> PolicySpec:
    return check_document(parse_document(text, file="p"), file="p", services=("node", "python"))


def told(text: str) -> list[str]:
    with pytest.raises(UserError) as error:
        check(text)
    return [str(problem) for problem in error.value.problems]


def test_returns_the_spec_of_a_valid_document() -> None:
    assert check("services: [python]") == PolicySpec.model_validate({"services": ["python"]})
    assert check("") == PolicySpec()


@each(
    ("text", "message"),
    [
        ("domain: []", "p:1:1: unknown key 'domain'; did you mean `domains`?"),
        ("qqq: []", f"p:1:1: unknown key 'qqq'; {KNOWN_ABOVE}"),
        ("secrets: {}", "p:1:1: `secrets` is not supported yet; remove it: this version would ignore it"),
        ("services: [pyton]", "p:1:12: unknown service 'pyton'; did you mean `python`?"),
        ("services: [zzz]", "p:1:12: unknown service 'zzz'; known: node, python"),
        ("services: [PYTHON]", "p:1:12: unknown service 'PYTHON'; did you mean `python`?"),
        ("services: [pi]", f"p:1:12: unknown service 'pi'; {ELSEWHERE}"),
        ("services: [{name: Pi}]", f"p:1:19: unknown service 'Pi'; {ELSEWHERE}"),
        ("services: [{name: python, merge_mode: Replace}]", "p:1:39: invalid value 'Replace'; did you mean `replace`?"),
        ("services: [{name: zzz}]", "p:1:19: unknown service 'zzz'; known: node, python"),
        (
            "domains: [10.0.0.1]",
            (
                "p:1:11: 10.0.0.1 is not a public address (private); "
                "add it under `host_services`: `NAME: {to: 10.0.0.1:443}`"
            ),
        ),
        (
            'domains: [{host: "[fd00::1]"}]',
            (
                "p:1:11: fd00::1 is not a public address (private); "
                'add it under `host_services`: `NAME: {to: "[fd00::1]:443"}`'
            ),
        ),
        (
            "allow: [GET http://169.254.169.254/x]",
            ("p:1:9: 169.254.169.254 is not a public address (link-local); no policy can allow it"),
        ),
        (
            "domains: [localhost]",
            (
                "p:1:11: localhost can only be a private host; "
                "add the Docker host under `host_services`: `NAME: {to: host:443}`"
            ),
        ),
        (
            "domains: ['*.corp.internal']",
            (
                "p:1:11: *.corp.internal can only be a private host; "
                "add it under `host_services`: `NAME: {to: corp.internal:443}`"
            ),
        ),
        (
            "domains: [{host: printer.local, ports: [631]}]",
            (
                "p:1:11: printer.local can only be a private host; "
                "add it under `host_services`: `NAME: {to: printer.local:631}`"
            ),
        ),
        (
            "allow: [GET http://db/]",
            ("p:1:9: db can only be a private host; add it under `host_services`: `NAME: {to: db:80}`"),
        ),
        (
            "domains: [github]",
            "p:1:11: github can only be a private host; put the service under `services`: `- github`",
        ),
        (
            "domains: [npm]",
            "p:1:11: npm can only be a private host; put the service under `services`: `- node`",
        ),
        (
            "domains: [{host: node, ports: [3000]}]",
            "p:1:11: node can only be a private host; add it under `host_services`: `NAME: {to: node:3000}`",
        ),
        ("version: 2", "p:1:10: invalid value `2`; write 1"),
        ("settings: {block_status: 500}", "p:1:26: invalid value `500`; write 403 or 418"),
        ("settings: {reload: always}", "p:1:20: invalid value 'always'; write 'restart' or 'watch'"),
        ("settings: {inspect: 0}", "p:1:21: `true` or `false` expected, not `0`"),
        ("settings: {inspect: }", "p:1:21: no value; remove the key, or give it a value"),
        ("settings: {block_stat: 403}", "p:1:12: unknown key 'block_stat'; did you mean `block_status`?"),
        (
            "settings: {http1: mitmproxy}",
            (
                "p:1:19: `http1: mitmproxy` is no longer supported: mitmproxy serves only HTTP/2; "
                "remove it, or write the default, `http1: auto`"
            ),
        ),
        ("settings: {http1: nginx}", "p:1:19: invalid value 'nginx'; write 'auto' or 'lane'"),
        ("settings: {engine: lane}", "p:1:12: unknown key 'engine'; `http1` chooses which clients get HTTP/1.1"),
        (
            "tests: [{}]",
            (
                "p:1:9: a test needs exactly one of `allow` and `deny`; "
                "write a method and a whole address: `GET https://example.com/path` after it"
            ),
        ),
        (
            "tests: [{allow: a.test}]",
            "p:1:17: not `METHOD URL`: 'a.test'; write a method and a whole address: `GET https://example.com/path`",
        ),
        ("settings: {budget: {uploads: 1}}", "p:1:21: unknown key 'uploads'; did you mean `upload`?"),
        ("tests: [{alow: x}]", "p:1:10: unknown key 'alow'; did you mean `allow`?"),
        ("host_services: [a]", "p:1:16: keys and values expected, not a list"),
        ("host_services: {db: host:80}", "p:1:21: keys and values expected, not 'host:80'"),
        ("host_services: {db: {}}", "p:1:21: `to` is missing"),
        ("host_services: {upstream: {too: x:80, to: x:80}}", "p:1:28: unknown key 'too'; did you mean `to`?"),
        ("host_services: {path: {to: x:80, path: {prefx: /}}}", "p:1:41: unknown key 'prefx'; did you mean `prefix`?"),
        ("settings: {upstream: {proxi: x}}", "p:1:23: unknown key 'proxi'; did you mean `proxy`?"),
        ("settings: {upstream: {ca: ../x.pem}}", CA_NAME),
        ("settings: {upstream: {}}", NOTHING_BETWEEN),
        ("host_services: {db: {too: host:80, to: host:80}}", "p:1:22: unknown key 'too'; did you mean `to`?"),
        (
            "host_services: {Db: {to: host:80}}",
            "p:1:17: not a host service name: 'Db'; use a-z, 0-9 and `-`, such as `ollama`",
        ),
        (
            "host_services: {db: {to: host}}",
            (
                "p:1:26: not a target: 'host': the port is missing; write `host:11434`, `wiki.internal:443`, "
                "`10.1.2.3:8080`, or `10.1.2.0/24` with `ports`"
            ),
        ),
        ("domains: [{host: a.test, ports: [443, 5432]}]", f"p:1:11: port 5432 is PostgreSQL, {IN_RULES}"),
        ("host_services: {db: {to: host:5432}}", f"p:1:21: port 5432 is PostgreSQL, {ONLY_HTTP}"),
        ("host_services: {db: {to: 10.1.2.0/24, ports: [80, 22]}}", f"p:1:21: port 22 is SSH, {ONLY_HTTP}"),
        (
            "host_services: {db: {to: 10.1.2.0/24}}",
            "p:1:21: `ports` is missing for the network `10.1.2.0/24`; write `ports: [8080]` beside it",
        ),
        (
            "host_services: {db: {to: host:80, ports: [80]}}",
            "p:1:21: `to` already has the port 80; remove `ports`",
        ),
        ("settings: 403", "p:1:11: keys and values expected, not `403`"),
        ("hello", "p:1:1: keys and values expected, not 'hello'"),
        ("- a.test", "p:1:1: keys and values expected, not a list"),
        (
            "tests: [GET https://a.test/]",
            "p:1:9: entry expected, not 'GET https://a.test/'; write `- allow: GET https://example.com/`",
        ),
        (
            "allow: [GET https://a.test/?a#b]",
            "p:1:9: 'GET https://a.test/?a#b' has a fragment; remove it: clients never send it",
        ),
        ("domains: a.test", "p:1:10: list expected, not 'a.test'; write [a.test]"),
        ("domains: 'a b'", "p:1:10: list expected, not 'a b'"),
        ('title: "\\e[31m"', "p:1:8: text with characters that cannot be printed"),
        ("domains: {a: b}", "p:1:10: list expected, not a mapping"),
        ("domains:\n  -\n", "p:2:4: entry expected, not an empty value"),
        ("domains: [[a.test]]", "p:1:11: entry expected, not a list"),
        ("domains: [443]", "p:1:11: entry expected, not `443`"),
        ("domains: [{ports: [1]}]", "p:1:11: `host` is missing"),
        ("domains: [{host: true}]", 'p:1:18: text expected, not `true`; if you mean the text, quote it: "true"'),
        ("domains: [{host: 443}]", 'p:1:18: text expected, not `443`; if you mean the text, quote it: "443"'),
        ("domains: [{host: }]", "p:1:18: text expected, not an empty value"),
        (
            "domains: [a.test, '*']",
            "p:1:19: `*` would allow every host; name the hosts, or set `allow_all: true` to allow all of them",
        ),
        (
            "allow_all: false\nallow: [GET https://*/]",
            "p:2:9: `*` would allow every host; name the hosts, or set `allow_all: true` to allow all of them",
        ),
        (
            "domains: ['*.github.io']",
            (
                "p:1:11: `*.github.io` matches every name that anyone registers below `github.io`; "
                "name the hosts you need"
            ),
        ),
        (
            "domains: [{host: .co.uk}]",
            "p:1:11: `.co.uk` matches every name that anyone registers below `co.uk`; name the hosts you need",
        ),
        ("allow_all: 1", "p:1:12: `true` or `false` expected, not `1`"),
        (
            "domains: ['*.com']",
            "p:1:11: `*.com` matches every name that anyone registers below `com`; name the hosts you need",
        ),
        ("domains: [{host: a.test, hots: 1}]", "p:1:26: unknown key 'hots'; did you mean `host`?"),
        (
            "domains: [{host: a.test, inspect: false, rules: [{methods: [GET]}]}]",
            (
                "p:1:35: `inspect: false` is passthrough, but this entry has conditions on the requests inside; "
                "remove `inspect`, or `rules`, `encoded_slash`, `transform` and `ask`"
            ),
        ),
        (
            "deny: [{host: a.test, inspect: false}]",
            "p:1:32: `inspect` is not possible in a deny; remove it; `inspect` belongs in an entry that allows",
        ),
        ("domains: [{host: a.test, ports: 443}]", "p:1:33: list expected, not `443`; write [443]"),
        ("domains: [{host: a.test, ports: [443a]}]", "p:1:34: not a port: '443a'; a port is a number from 1 to 65535"),
        ("domains: [{host: a.test, ports: [0]}]", "p:1:34: not a port: `0`; a port is a number from 1 to 65535"),
        (
            "domains: [{host: a.test, ports: [70000]}]",
            "p:1:34: not a port: `70000`; a port is a number from 1 to 65535",
        ),
        ("domains: [{host: a.test, ports: []}]", "p:1:33: empty list; remove it, or add an entry"),
        ("domains: [{host: a.test, rules: }]", "p:1:33: list expected, not an empty value"),
        ("domains: [{host: a.test, rules: []}]", "p:1:33: empty list; remove it, or add an entry"),
        ("domains: [{host: a.test, rules: [GET]}]", "p:1:34: entry expected, not 'GET'"),
        ("domains: [{host: a.test, encoded_slash: 1}]", "p:1:41: `true` or `false` expected, not `1`"),
        (f"domains: [{{host: a.test, reason: {'a' * 1001}}}]", "p:1:34: text longer than 1000 characters"),
        (
            "deny: [{host: a.test, rules: [{max_body: 1MiB}]}]",
            (
                "p:1:42: `max_body` is not possible in a deny: it would let larger bodies through; "
                "remove it; `max_body` belongs in an entry that allows"
            ),
        ),
        (
            "allow: [a.test]",
            (
                "p:1:9: not `METHOD URL`: 'a.test'; a host alone goes under `domains`; "
                "for one request write a method and a whole address: `GET https://example.com/path`"
            ),
        ),
        (
            "allow: [{host: a.test}]",
            (
                "p:1:9: an entry of `allow` has to be one line; write a method and a whole address: "
                "`GET https://example.com/path`; entries with keys go under `domains`"
            ),
        ),
        (
            "deny: [{host: a.test, ask: true}]",
            "p:1:28: `ask` is not possible in a deny; remove it; `ask` belongs in an entry that allows",
        ),
        (
            "deny: [{host: a.test, rules: [{methods: [GET], ask: true}]}]",
            "p:1:53: `ask` is not possible in a deny; remove it; `ask` belongs in an entry that allows",
        ),
        (
            "domains: [{host: a.test, inspect: false, ask: true}]",
            (
                "p:1:35: `inspect: false` is passthrough, but this entry has conditions on the requests inside; "
                "remove `inspect`, or `rules`, `encoded_slash`, `transform` and `ask`"
            ),
        ),
        (
            "host_services: {db: {to: host:8080, ask: true}}",
            (
                "p:1:42: `ask` is not possible for a host service: no answer can allow a private address; "
                "remove it; name in `methods` and `path` what is allowed"
            ),
        ),
        (
            "domains: [{host: a.test, rules: [{graphql: {query: [a]}, ask: true}]}]",
            f"p:1:63: {NO_QUESTION}",
        ),
        (
            "domains: [{host: a.test, ask: true, rules: [{graphql: {query: [a]}}]}]",
            f"p:1:55: {NO_QUESTION}",
        ),
        (
            "domains: [{host: a.test, paths: [/x]}]",
            "p:1:26: unknown key 'paths'; conditions go into rules: `rules: [{path: {glob: /v1/**}}]`",
        ),
        (
            "deny: [{host: a.test, methods: [GET]}]",
            "p:1:23: unknown key 'methods'; conditions go into rules: `rules: [{methods: [GET]}]`",
        ),
        (
            "services: {python: {readonly: true}}",
            "p:1:11: list expected, not a mapping; write `- name: python`, and its options below, beside `name`",
        ),
        (
            "services: [npm: {readonly: true}]",
            "p:1:12: `name` is missing; write `- name: node`, and its options below, beside `name`",
        ),
        ("services: [{readonly: true}]", "p:1:12: `name` is missing"),
        (
            "github: {write: true}",
            "p:1:1: unknown key 'github'; put the service under `services`: `- name: github`",
        ),
        (
            "domains: [git@git.test:team/r.git]",
            f"p:1:11: 'git@git.test:team/r.git' is an SSH address; {OVER_HTTPS}, or its service with `repos: [team/r]`",
        ),
        (
            "allow: [ssh://git@git.test:22/a/b/c]",
            f"p:1:9: 'ssh://git@git.test:22/a/b/c' is an SSH address; {OVER_HTTPS}",
        ),
        ("allow: ['* https://a.test/']", "p:1:9: unknown method '*'; name them: `GET,POST`"),
        ("allow: ['GET,PSOT https://a.test/']", "p:1:9: unknown method 'PSOT'; did you mean `POST`?"),
        (
            "allow: ['GET, POST https://a.test/']",
            (
                "p:1:9: not `METHOD URL`: 'GET, POST https://a.test/'; "
                "write the methods without spaces: `GET,POST https://a.test/`"
            ),
        ),
        ("allow: [GTE https://a.test/]", "p:1:9: unknown method 'GTE'; did you mean `GET`?"),
        (
            "allow: [GET https://a.test/../b]",
            "p:1:9: the path contains a dot segment: '/../b'; write the resolved path, starting with `/`",
        ),
    ],
)
def test_reports_each_problem_with_its_place_and_its_fix(text: str, message: str) -> None:
    assert told(text) == [message]


@each(
    ("rule", "message"),
    [
        ("methods: GET", "p:1:44: list expected, not 'GET'; write [GET]"),
        ("methods: '*'", f"p:1:44: list expected, not '*'; {EVERY}"),
        ("methods: ['*']", f"p:1:45: unknown method '*'; {EVERY}"),
        ("methods: [ANY]", f"p:1:45: unknown method 'ANY'; {EVERY}"),
        ("paths: [/x]", "p:1:35: unknown key 'paths'; a rule has one path: `path: {glob: /v1/**}`"),
        ("methods: [GTE]", "p:1:45: unknown method 'GTE'; did you mean `GET`?"),
        ("methods: [get]", "p:1:45: unknown method 'get'; did you mean `GET`?"),
        ("method: gte", "p:1:34: unknown method 'GTE'; did you mean `GET`?"),
        ("method: 1", "p:1:35: unknown key 'method'; did you mean `methods`?"),
        ("method: get, methods: [PUT]", "p:1:34: both `method` and `methods` are set; keep `methods`"),
        ("schemes: [HTTPS]", "p:1:45: invalid value 'HTTPS'; did you mean `https`?"),
        ("schemes: [htps]", "p:1:45: invalid value 'htps'; write 'http' or 'https'"),
        ("path: /v1", "p:1:41: keys and values expected, not '/v1'; write `path: {prefix: /v1/}`"),
        ("path: {}", "p:1:41: `path` needs exactly one of `exact`, `prefix` and `glob`"),
        ("path: {regex: x}", "p:1:42: unknown key 'regex'; known: exact, glob, prefix"),
        (
            "path: {exact: x}",
            "p:1:49: the path does not start with `/`: 'x'; write the resolved path, starting with `/`",
        ),
        ("query: {exact: a}", "p:1:50: keys and values expected, not 'a'"),
        ("query: {exact: {a: 1}}", "p:1:54: list expected, not `1`; write [1]"),
        ("query: {exact: {a: [true]}}", 'p:1:55: text expected, not `true`; if you mean the text, quote it: "true"'),
        ("path: ", "p:1:41: no value; remove the key, or give it a value"),
        ("query: ", "p:1:42: no value; remove the key, or give it a value"),
        (
            "headers: {}",
            "p:1:44: `headers` is empty; remove it, or write `headers: {content-type: application/json}`",
        ),
        ("headers: {x-n: 1}", 'p:1:50: text expected, not `1`; if you mean the text, quote it: "1"'),
        ("max_body: 1M", f"p:1:45: not a size: '1M'; {SIZES}"),
        ("max_body: -1", f"p:1:45: not a size: `-1`; {SIZES}"),
        ("max_body: [1]", f"p:1:45: a size has to be a number of bytes; {SIZES}"),
        ("max_body: ", "p:1:45: no value; remove the key, or give it a value"),
    ],
)
def test_reports_each_problem_in_a_rule_with_its_place(rule: str, message: str) -> None:
    assert told(f"domains: [{{host: a.test, rules: [{{{rule}}}]}}]") == [message]


def test_a_policy_can_deny_a_private_address_and_allow_a_public_address() -> None:
    assert str(check("deny: [10.0.0.1]").deny[0].host) == "10.0.0.1"
    assert str(check("domains: [203.0.113.7]").domains[0].host) == "203.0.113.7"


def test_host_service_at_a_port_of_another_protocol_is_valid_if_its_scheme_is_named() -> None:
    spec = check("host_services: {db: {to: host:6379, schemes: [http]}}")
    assert spec.host_services["db"].to.port == 6379


def test_reports_all_problems_at_once_in_file_order() -> None:
    text = "version: 2\ndomains:\n  - no\n  - host: a.test\n    prots: [1]\ndomain: []\ndomains: []\n"
    assert told(text) == [
        "p:1:10: invalid value `2`; write 1",
        "p:3:5: YAML parsers differ on 'no'; quote it: \"no\", or write `false`",
        "p:5:5: unknown key 'prots'; did you mean `ports`?",
        "p:6:1: unknown key 'domain'; did you mean `domains`?",
        "p:7:1: duplicate key 'domains'; keep one of them",
    ]


def test_nearest_lists_all_known_words_if_none_is_similar() -> None:
    assert nearest("zzz", ["b", "a"]) == "known: a, b"


def test_rejects_a_duplicate_key_in_an_otherwise_valid_policy() -> None:
    assert told("version: 1\nversion: 1") == ["p:2:1: duplicate key 'version'; keep one of them"]


def test_falls_back_to_the_message_of_pydantic() -> None:
    odd = Document(value={1: 2}, places={}, keys={}, problems=())  # type: ignore[dict-item] # no YAML makes it
    with pytest.raises(UserError) as error:
        check_document(odd, file="p", services=())
    assert str(error.value) == "p:1:1: Keys should be strings"


def test_suggests_services_for_a_service_listed_under_domains() -> None:
    expected = "p:1:12: unknown key 'name'; services go under `services`"
    assert expected in told("domains: [{name: github}]")
