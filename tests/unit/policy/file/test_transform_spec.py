import json

from agent_sandbox.policy.match.injection import Credential, Existing, injection
from policy_specs import problems, read
from table_tests import each


def test_parses_headers_with_their_secrets() -> None:
    text = """\
domains:
  - host: a.test
    transform:
      request:
        headers:
          Authorization: {secret: forge.token, transform: {type: basic, username: bot}}
          X-Key:
            secret: key
            transform: {type: raw}
            client_shim: {kind: env, name: KEY_TOKEN, also: [B_KEY], prefix: k-}
            other_headers: [X-B, A]
            other_parameters: [k, b]
        on_existing_header: replace
    rules:
      - {methods: [GET], transform: {request: {headers: {X-Key: {secret: other, transform: {type: bearer}}}}}}
"""
    (entry,) = read(text).domains
    basic = Credential(header="authorization", secret="forge.token", kind="basic", username="bot")
    own = entry.rules[0].transform
    assert entry.transform is not None
    assert own is not None
    assert entry.transform.injection == injection(
        [
            basic,
            Credential(
                header="x-key",
                secret="key",
                kind="raw",
                env="KEY_TOKEN",
                also=("B_KEY",),
                prefix="k-",
                others=("a", "x-b"),
                parameters=("b", "k"),
            ),
        ],
        existing=Existing.REPLACE,
    )
    again = read(f"domains:\n  - {{host: a.test, transform: {json.dumps(entry.transform.injection.written)}}}\n")
    read_again = again.domains[0].transform
    assert read_again is not None
    assert read_again.injection == entry.transform.injection
    assert own.injection == injection([Credential(header="x-key", secret="other")])


EXAMPLE = "{Authorization: {secret: NAME, transform: {type: bearer}}}"
MANY = ", ".join(f"X-{number}: {{secret: s, transform: {{type: bearer}}}}" for number in range(17))
TWICE = "header names are case-insensitive, and `_` counts as `-`: keep one of them"
ENDINGS = "`_KEY`, `_KEY_ID`, `_TOKEN`, `_SECRET`, `_PASSWORD` or `_PAT`"
VARIABLES = f"use capital letters, digits and `_`, with {ENDINGS} at the end"
SIGV4 = "type: sigv4, region: eu-north-1"
UNOPENED = (
    "`inspect: false` is passthrough, but this entry has conditions on the requests inside; "
    "remove `inspect`, or `rules`, `encoded_slash`, `transform` and `ask`"
)


@each(
    ("headers", "expected"),
    [
        ("{}", f"1:57: `headers` is empty; write `headers: {EXAMPLE}`"),
        (f"{{{MANY}}}", "1:57: `headers` has more than 16 headers; a request never needs so many secrets"),
        (
            "{X-A: {secret: s, transform: {type: bearer}}, x_a: {secret: s, transform: {type: bearer}}}",
            f"1:57: duplicate header in `headers`; {TWICE}",
        ),
        (
            "{Host: {secret: s, transform: {type: bearer}}}",
            "1:57: a rule cannot match the header `host`; the entry names the host",
        ),
        ("{X: {transform: {type: bearer}}}", "1:61: `secret` is missing"),
        ("{X: {secret: s}}", "1:61: `transform` is missing"),
        (
            "{X: {secret: s, transform: {type: Bearor}}}",
            "1:91: invalid value 'Bearor'; write 'basic', 'bearer', 'raw' or 'sigv4'",
        ),
        (
            "{X: {secret: s, transform: {type: token}}}",
            "1:91: invalid value 'token'; write 'basic', 'bearer', 'raw' or 'sigv4'",
        ),
        (
            f"{{Authorization: {{secret: s, transform: {{{SIGV4}}}}}}}",
            "1:96: `type: sigv4` needs a service; write `service: NAME` beside it",
        ),
        (
            f"{{X: {{secret: s, transform: {{{SIGV4}, service: s3}}}}}}",
            "1:57: `type: sigv4` has to be in `Authorization`; move it there",
        ),
        (
            "{X: {secret: s, transform: {type: bearer, region: r}}}",
            "1:84: `type: bearer` takes no region; remove `region`, or write `type: sigv4`",
        ),
        (
            f"{{Authorization: {{secret: s, transform: {{{SIGV4}, service: s/3}}}}}}",
            "1:139: not a region or a service of a signature: 's/3'; write them as in `eu-central-1` and `s3`",
        ),
        ("{X: {secret: s, transform: {typ: bearer}}}", "1:85: unknown key 'typ'; did you mean `type`?"),
        (
            "{X: {secret: s, transform: {type: basic}}}",
            "1:84: `type: basic` needs a user name; write `username: NAME` beside it",
        ),
        (
            "{X: {secret: s, transform: {type: bearer, username: u}}}",
            "1:84: `type: bearer` takes no user name; remove `username`, or write `type: basic`",
        ),
        (
            "{X: {secret: s, transform: {type: raw, username: u}}}",
            "1:84: `type: raw` takes no user name; remove `username`, or write `type: basic`",
        ),
        (
            "{X: {secret: s, transform: {type: basic, username: 'a:b'}}}",
            "1:108: not a user name: 'a:b'; use ASCII characters, no colon, no space at either end",
        ),
        (
            "{X: {secret: a/b, transform: {type: bearer}}}",
            "1:70: not a secret name: 'a/b'; use letters, digits, `.`, `_` and `-`, such as `github.token`",
        ),
        (
            "{X: {secret: s, transform: {type: raw}, client_shim: {kind: env, name: PATH}}}",
            f"1:128: not a variable for a credential: 'PATH'; {VARIABLES}",
        ),
        (
            "{X: {secret: s, transform: {type: raw}, client_shim: {kind: env, name: A_KEY, prefix: $}}}",
            "1:143: not the beginning of a placeholder: '$'; use at most 40 letters, digits, `_` and `-`",
        ),
        (
            "{X: {secret: s, transform: {type: raw}, client_shim: {kind: env, nam: A_KEY}}}",
            "1:122: unknown key 'nam'; did you mean `name`?",
        ),
        (
            "{X: {secret: s, transform: {type: raw}, other_headers: [a b]}}",
            "1:113: not a header name: 'a b'; write a name such as `content-type`",
        ),
        ("{X: {secrets: s, transform: {type: bearer}}}", "1:62: unknown key 'secrets'; did you mean `secret`?"),
    ],
)
def test_reports_invalid_headers_at_their_location(headers: str, expected: str) -> None:
    text = f"domains: [{{host: a.test, transform: {{request: {{headers: {headers}}}}}}}]"
    assert f"p:{expected}" in problems(text)


PARAMETERS = "`query` is not a list of parameters; write `query: {key: {secret: NAME}}`"


@each(
    ("request", "expected"),
    [
        ("{}", f"1:47: `headers` is missing; write `headers: {EXAMPLE}`"),
        ("{on_existing_header: keep}", f"1:47: `headers` is missing; write `headers: {EXAMPLE}`"),
        ("{query: {}}", f"1:55: {PARAMETERS}"),
        ("{query: {'a b': {secret: s}}}", f"1:55: {PARAMETERS}"),
        ("{query: {key: {secret: s, transform: {type: raw}}}}", "1:73: unknown key 'transform'"),
    ],
)
def test_reports_missing_headers_and_invalid_query_parameters(request: str, expected: str) -> None:
    text = f"domains: [{{host: a.test, transform: {{request: {request}}}}}]"
    assert any(one.startswith(f"p:{expected}") for one in problems(text)), problems(text)


KEY = "transform: {request: {headers: {X: {secret: s, transform: {type: bearer}}}}}"


@each(
    ("text", "expected"),
    [
        (
            f"domains: [{{host: a.test, {KEY}, rules: [{{schemes: [https, http]}}]}}]",
            "p:1:122: a secret is sent only over https; write `schemes: [https]`",
        ),
        (
            f"domains: [{{host: a.test, rules: [{{schemes: [http], {KEY}}}]}}]",
            "p:1:44: a secret is sent only over https; write `schemes: [https]`",
        ),
        (
            f"domains: [{{host: a.test, {KEY}, inspect: false}}]",
            f"p:1:113: {UNOPENED}",
        ),
        (
            f"deny: [{{host: a.test, {KEY}}}]",
            "p:1:34: `transform` is not possible in a deny; remove it; `transform` belongs in an entry that allows",
        ),
        (
            f"deny: [{{host: a.test, rules: [{{methods: [GET], {KEY}}}]}}]",
            "p:1:59: `transform` is not possible in a deny; remove it; `transform` belongs in an entry that allows",
        ),
        (
            "domains: [{host: a.test, transform: {response: {}}}]",
            "p:1:38: unknown key 'response'; known: request",
        ),
        (
            f"domains: [{{host: a.test, transform: {{request: {{headers: {KEY[31:-2]}, on_existing_header: kept}}}}}}]",
            "p:1:122: invalid value 'kept'; write 'fail', 'replace' or 'keep'",
        ),
    ],
)
def test_rejects_transform_in_a_deny_and_with_plain_http_or_passthrough(text: str, expected: str) -> None:
    assert expected in problems(text)


def test_a_secret_can_be_a_parameter_of_the_query() -> None:
    text = "domains: [{host: a.test, transform: {request: {query: {Key: {secret: s}}, on_existing_header: keep}}}]"
    (entry,) = read(text).domains
    credential = Credential(header="Key", secret="s", kind="query")
    assert entry.transform is not None
    assert entry.transform.injection == injection([credential], existing=Existing.KEEP)


def test_the_kind_of_a_credential_is_read_in_any_case() -> None:
    entry = "domains: [{host: a.test, transform: {request: {headers: {X: {secret: s, transform: {type: BEARER}}}}}}]"
    assert read(entry) == read(entry.replace("BEARER", "bearer"))
