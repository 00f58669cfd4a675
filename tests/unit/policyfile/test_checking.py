import pytest

from agent_sandbox.policy.file.spec import PolicySpec
from agent_sandbox.policyfile.checking import ELSEWHERE, check_document, nearest
from agent_sandbox.policyfile.resolved import advice_for
from agent_sandbox.policyfile.text.document import Document, parse_document
from agent_sandbox.problems import UserError
from table_tests import each

KNOWN_ABOVE = (
    "known are allow, allow_all, date, deny, domains, domains_file, host_services, reason, services, settings, tests, "
    "tighten, title, version"
)

CA_NAME = "p:1:27: certificates lie in a file beside the policy; name the file alone: `ca: corp-ca.pem`"
NOTHING_BETWEEN = "p:1:22: `upstream` names neither a proxy nor an authority; write `proxy`, `ca`, or both"
NOT_HERE = "does not go here; did you mean"
SIZES = "write a number of bytes, or one with B, KB, MB, GB, KiB, MiB, GiB: `1MiB`"


def check(text: str) -> PolicySpec:
    return check_document(parse_document(text, file="p"), file="p", services=("node", "python"))


def told(text: str) -> list[str]:
    with pytest.raises(UserError) as error:
        check(text)
    return [str(problem) for problem in error.value.problems]


def test_a_good_document_is_its_spec() -> None:
    assert check("services: [python]") == PolicySpec.model_validate({"services": ["python"]})
    assert check("") == PolicySpec()


@each(
    ("text", "message"),
    [
        ("domain: []", "p:1:1: unknown key 'domain'; did you mean `domains`?"),
        ("qqq: []", f"p:1:1: unknown key 'qqq'; {KNOWN_ABOVE}"),
        ("secrets: {}", "p:1:1: `secrets` is not supported yet; take it out: this version would not do what it says"),
        ("services: [debiann]", "p:1:12: unknown service 'debiann'; did you mean `debian`?"),
        ("services: [pyton]", "p:1:12: unknown service 'pyton'; did you mean `python`?"),
        ("services: [pip]", "p:1:12: unknown service 'pip'; did you mean `python`?"),
        ("services: [apt]", f"p:1:12: unknown service 'apt'; did you mean `debian`? {advice_for('debian')}"),
        ("services: [zzz]", "p:1:12: unknown service 'zzz'; known are debian, node, python"),
        ("services: [PYTHON]", "p:1:12: unknown service 'PYTHON'; did you mean `python`?"),
        ("services: [factory]", f"p:1:12: unknown service 'factory'; {ELSEWHERE}"),
        ("services: [{name: Pi}]", f"p:1:19: unknown service 'Pi'; {ELSEWHERE}"),
        ("services: [{name: python, merge_mode: Replace}]", f"p:1:39: 'Replace' {NOT_HERE} `replace`?"),
        ("services: [{name: zzz}]", "p:1:19: unknown service 'zzz'; known are debian, node, python"),
        (
            "domains: [10.0.0.1]",
            (
                "p:1:11: 10.0.0.1 is no public address (private); "
                "name it under `host_services`: `NAME: {to: 10.0.0.1:443}`"
            ),
        ),
        (
            'domains: [{host: "[fd00::1]"}]',
            (
                "p:1:11: fd00::1 is no public address (private); "
                'name it under `host_services`: `NAME: {to: "[fd00::1]:443"}`'
            ),
        ),
        (
            "allow: [GET http://169.254.169.254/x]",
            (
                "p:1:9: 169.254.169.254 is no public address (link-local); "
                "no policy can: nothing in the sandbox reaches it"
            ),
        ),
        (
            "domains: [localhost]",
            (
                "p:1:11: localhost can only lead to a private place; "
                "the engine's machine is named under `host_services`: `NAME: {to: host:443}`"
            ),
        ),
        (
            "domains: ['*.corp.internal']",
            (
                "p:1:11: *.corp.internal can only lead to a private place; "
                "name it under `host_services`: `NAME: {to: corp.internal:443}`"
            ),
        ),
        (
            "domains: [{host: printer.local, ports: [631]}]",
            (
                "p:1:11: printer.local can only lead to a private place; "
                "name it under `host_services`: `NAME: {to: printer.local:631}`"
            ),
        ),
        (
            "allow: [GET http://db/]",
            ("p:1:9: db can only lead to a private place; name it under `host_services`: `NAME: {to: db:80}`"),
        ),
        (
            "domains: [github]",
            "p:1:11: github can only lead to a private place; the service goes under `services`: `- github`",
        ),
        (
            "domains: [npm]",
            "p:1:11: npm can only lead to a private place; the service goes under `services`: `- node`",
        ),
        (
            "domains: [{host: node, ports: [3000]}]",
            "p:1:11: node can only lead to a private place; name it under `host_services`: `NAME: {to: node:3000}`",
        ),
        ("version: 2", "p:1:10: `2` does not go here; write 1"),
        ("settings: {block_status: 500}", "p:1:26: `500` does not go here; write 403 or 418"),
        ("settings: {reload: always}", "p:1:20: 'always' does not go here; write 'restart' or 'watch'"),
        ("settings: {inspect: 0}", "p:1:21: `0` stands where `true` or `false` is wanted"),
        ("settings: {inspect: }", "p:1:21: nothing stands here; take the key out, or fill it"),
        ("settings: {block_stat: 403}", "p:1:12: unknown key 'block_stat'; did you mean `block_status`?"),
        (
            "tests: [{}]",
            (
                "p:1:9: a case is one of `allow`, `deny`; "
                "write a method and a whole address: `GET https://example.com/path` after it"
            ),
        ),
        (
            "tests: [{allow: a.test}]",
            "p:1:17: 'a.test' is no `METHOD URL`; write a method and a whole address: `GET https://example.com/path`",
        ),
        ("tests: [{alow: x}]", "p:1:10: unknown key 'alow'; did you mean `allow`?"),
        ("host_services: [a]", "p:1:16: a list stands where keys and values are wanted"),
        ("host_services: {db: host:80}", "p:1:21: 'host:80' stands where keys and values are wanted"),
        ("host_services: {db: {}}", "p:1:21: `to` is missing"),
        ("host_services: {upstream: {too: x:80, to: x:80}}", "p:1:28: unknown key 'too'; did you mean `to`?"),
        ("host_services: {path: {to: x:80, path: {prefx: /}}}", "p:1:41: unknown key 'prefx'; did you mean `prefix`?"),
        ("settings: {upstream: {proxi: x}}", "p:1:23: unknown key 'proxi'; did you mean `proxy`?"),
        ("settings: {upstream: {ca: ../x.pem}}", CA_NAME),
        ("settings: {upstream: {}}", NOTHING_BETWEEN),
        ("host_services: {db: {too: host:80, to: host:80}}", "p:1:22: unknown key 'too'; did you mean `to`?"),
        (
            "host_services: {Db: {to: host:80}}",
            "p:1:17: 'Db' is no name of a host service; write one word of a-z, 0-9, `-`: `ollama`",
        ),
        (
            "host_services: {db: {to: host}}",
            (
                "p:1:26: 'host' is no target: the port is missing; write `host:11434`, `db.internal:5432`, "
                "`10.1.2.3:8080`, or `10.1.2.0/24` with `ports`"
            ),
        ),
        (
            "host_services: {db: {to: 10.1.2.0/24}}",
            "p:1:21: a network has no port of its own: `10.1.2.0/24`; write `ports: [8080]` beside it",
        ),
        (
            "host_services: {db: {to: host:80, ports: [80]}}",
            "p:1:21: the port stands in `to` already: 80; take `ports` out",
        ),
        ("settings: 403", "p:1:11: `403` stands where keys and values are wanted"),
        ("hello", "p:1:1: 'hello' stands where keys and values are wanted"),
        ("- a.test", "p:1:1: a list stands where keys and values are wanted"),
        (
            "tests: [GET https://a.test/]",
            "p:1:9: 'GET https://a.test/' stands where an entry is wanted; write `- allow: GET https://example.com/`",
        ),
        (
            "allow: [GET https://a.test/?a#b]",
            "p:1:9: 'GET https://a.test/?a#b' holds a fragment; leave it out: no client sends it",
        ),
        ("domains: a.test", "p:1:10: 'a.test' stands where a list is wanted; write [a.test]"),
        ("domains: 'a b'", "p:1:10: 'a b' stands where a list is wanted"),
        ('title: "\\e[31m"', "p:1:8: a text with characters that cannot be shown"),
        ("domains: {a: b}", "p:1:10: a mapping stands where a list is wanted"),
        ("domains:\n  -\n", "p:2:4: nothing stands where an entry is wanted"),
        ("domains: [[a.test]]", "p:1:11: a list stands where an entry is wanted"),
        ("domains: [443]", "p:1:11: `443` stands where an entry is wanted"),
        ("domains: [{ports: [1]}]", "p:1:11: `host` is missing"),
        ("domains: [{host: true}]", 'p:1:18: `true` is no text here; quote it if it is meant: "true"'),
        ("domains: [{host: 443}]", 'p:1:18: `443` is no text here; quote it if it is meant: "443"'),
        ("domains: [{host: }]", "p:1:18: nothing stands where text is wanted"),
        (
            "domains: [a.test, '*']",
            "p:1:19: `*` would allow every host; name the hosts; if all of them are meant, `allow_all: true`",
        ),
        (
            "allow_all: false\nallow: [GET https://*/]",
            "p:2:9: `*` would allow every host; name the hosts; if all of them are meant, `allow_all: true`",
        ),
        (
            "domains: ['*.github.io']",
            (
                "p:1:11: `*.github.io` takes in every name that anybody registers below `github.io`; "
                "name the hosts you need"
            ),
        ),
        (
            "domains: [{host: .co.uk}]",
            "p:1:11: `.co.uk` takes in every name that anybody registers below `co.uk`; name the hosts you need",
        ),
        ("allow_all: 1", "p:1:12: `1` stands where `true` or `false` is wanted"),
        (
            "domains: ['*.com']",
            "p:1:11: `*.com` takes in every name that anybody registers below `com`; name the hosts you need",
        ),
        ("domains: [{host: a.test, hots: 1}]", "p:1:26: unknown key 'hots'; did you mean `host`?"),
        (
            "domains: [{host: a.test, inspect: false, rules: [{methods: [GET]}]}]",
            (
                "p:1:35: `inspect: false` lets TLS through unopened, and this entry asks for what is inside; "
                "take out `inspect`, or `rules`, `encoded_slash` and `transform`"
            ),
        ),
        (
            "deny: [{host: a.test, inspect: false}]",
            "p:1:32: a deny has no `inspect`; take it out; `inspect` goes with a host that is allowed",
        ),
        ("domains: [{host: a.test, ports: 443}]", "p:1:33: `443` stands where a list is wanted; write [443]"),
        ("domains: [{host: a.test, ports: [443a]}]", "p:1:34: '443a' is no port; a port is a number from 1 to 65535"),
        ("domains: [{host: a.test, ports: [0]}]", "p:1:34: `0` is no port; a port is a number from 1 to 65535"),
        ("domains: [{host: a.test, ports: [70000]}]", "p:1:34: `70000` is no port; a port is a number from 1 to 65535"),
        ("domains: [{host: a.test, ports: []}]", "p:1:33: an empty list says nothing; take it out, or fill it"),
        ("domains: [{host: a.test, rules: }]", "p:1:33: nothing stands where a list is wanted"),
        ("domains: [{host: a.test, rules: []}]", "p:1:33: an empty list says nothing; take it out, or fill it"),
        ("domains: [{host: a.test, rules: [GET]}]", "p:1:34: 'GET' stands where an entry is wanted"),
        ("domains: [{host: a.test, encoded_slash: 1}]", "p:1:41: `1` stands where `true` or `false` is wanted"),
        (f"domains: [{{host: a.test, reason: {'a' * 1001}}}]", "p:1:34: a text of more than 1000 characters"),
        (
            "deny: [{host: a.test, rules: [{max_body: 1MiB}]}]",
            (
                "p:1:42: a deny has no `max_body`: it would let larger bodies through; "
                "take it out; `max_body` goes with what is allowed"
            ),
        ),
        (
            "allow: [a.test]",
            (
                "p:1:9: 'a.test' is no `METHOD URL`; a host alone goes under `domains`; "
                "for one request write a method and a whole address: `GET https://example.com/path`"
            ),
        ),
        (
            "allow: [{host: a.test}]",
            (
                "p:1:9: an entry of `allow` is one line; write a method and a whole address: "
                "`GET https://example.com/path`; entries with keys go under `domains`"
            ),
        ),
        ("allow: [GTE https://a.test/]", "p:1:9: unknown method 'GTE'; did you mean `GET`?"),
        (
            "allow: [GET https://a.test/../b]",
            "p:1:9: the path holds a dot segment: '/../b'; write the path as it is when resolved, from its first `/`",
        ),
    ],
)
def test_each_mistake_is_told_where_it_stands_and_how_to_mend_it(text: str, message: str) -> None:
    assert told(text) == [message]


@each(
    ("rule", "message"),
    [
        ("methods: GET", "p:1:44: 'GET' stands where a list is wanted; write [GET]"),
        ("methods: [GTE]", "p:1:45: unknown method 'GTE'; did you mean `GET`?"),
        ("methods: [get]", "p:1:45: unknown method 'get'; did you mean `GET`?"),
        ("method: gte", "p:1:34: unknown method 'GTE'; did you mean `GET`?"),
        ("method: 1", "p:1:35: unknown key 'method'; did you mean `methods`?"),
        ("method: get, methods: [PUT]", "p:1:34: `method` and `methods` say the same thing; keep `methods`"),
        ("schemes: [HTTPS]", "p:1:45: 'HTTPS' does not go here; did you mean `https`?"),
        ("schemes: [htps]", "p:1:45: 'htps' does not go here; write 'http' or 'https'"),
        ("path: /v1", "p:1:41: '/v1' stands where keys and values are wanted; write `path: {prefix: /v1/}`"),
        ("path: {}", "p:1:41: a path is one of `exact`, `prefix`, `glob`"),
        ("path: {regex: x}", "p:1:42: unknown key 'regex'; known are exact, glob, prefix"),
        (
            "path: {exact: x}",
            "p:1:49: the path does not start with `/`: 'x'; write the path as it is when resolved, from its first `/`",
        ),
        ("query: {exact: a}", "p:1:50: 'a' stands where keys and values are wanted"),
        ("query: {exact: {a: 1}}", "p:1:54: `1` stands where a list is wanted; write [1]"),
        ("query: {exact: {a: [true]}}", 'p:1:55: `true` is no text here; quote it if it is meant: "true"'),
        ("path: ", "p:1:41: nothing stands here; take the key out, or fill it"),
        ("query: ", "p:1:42: nothing stands here; take the key out, or fill it"),
        (
            "headers: {}",
            "p:1:44: `headers` names no header; take it out, or write `headers: {content-type: application/json}`",
        ),
        ("headers: {x-n: 1}", 'p:1:50: `1` is no text here; quote it if it is meant: "1"'),
        ("max_body: 1M", f"p:1:45: '1M' is no size; {SIZES}"),
        ("max_body: -1", f"p:1:45: `-1` is no size; {SIZES}"),
        ("max_body: [1]", f"p:1:45: a size is a number of bytes; {SIZES}"),
        ("max_body: ", "p:1:45: nothing stands here; take the key out, or fill it"),
    ],
)
def test_each_mistake_of_a_rule_is_told_where_it_stands(rule: str, message: str) -> None:
    assert told(f"domains: [{{host: a.test, rules: [{{{rule}}}]}}]") == [message]


def test_a_private_address_may_be_denied_and_a_public_one_allowed() -> None:
    assert str(check("deny: [10.0.0.1]").deny[0].host) == "10.0.0.1"
    assert str(check("domains: [203.0.113.7]").domains[0].host) == "203.0.113.7"


def test_everything_is_told_at_once_in_the_order_of_the_file() -> None:
    text = "version: 2\ndomains:\n  - no\n  - host: a.test\n    prots: [1]\ndomain: []\ndomains: []\n"
    assert told(text) == [
        "p:1:10: `2` does not go here; write 1",
        "p:3:5: 'no' is not text to every reader of YAML; quote it: \"no\", or write `false`",
        "p:5:5: unknown key 'prots'; did you mean `ports`?",
        "p:6:1: unknown key 'domain'; did you mean `domains`?",
        "p:7:1: key 'domains' is here twice; keep one of them",
    ]


def test_a_word_that_is_like_none_is_offered_all() -> None:
    assert nearest("zzz", ["b", "a"]) == "known are a, b"


def test_a_document_that_is_a_policy_but_no_plain_yaml_is_refused() -> None:
    assert told("version: 1\nversion: 1") == ["p:2:1: key 'version' is here twice; keep one of them"]


def test_a_problem_that_has_no_words_of_ours_is_told_in_those_of_pydantic() -> None:
    odd = Document(value={1: 2}, places={}, keys={}, problems=())  # type: ignore[dict-item] # no YAML makes it
    with pytest.raises(UserError) as error:
        check_document(odd, file="p", services=())
    assert str(error.value) == "p:1:1: Keys should be strings"


def test_a_service_among_the_hosts_is_told_where_it_belongs() -> None:
    expected = "p:1:12: unknown key 'name'; a service goes under `services`"
    assert expected in told("domains: [{name: github}]")
