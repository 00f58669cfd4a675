from agent_sandbox.policytools.lint.checks.secrets import optional_secret, wide_secret
from policy_texts import Find

KEY = "{request: {headers: {X-Key: {secret: key, transform: {type: bearer}}}}}"
TEXT = f"""\
domains:
  - a.test
  - {{host: b.test, transform: {KEY}}}
  - {{host: .c.test, transform: {KEY}}}
"""
SERVICE = f"""\
domains:
  - {{host: '*.d.test', transform: {KEY}, rules: [{{methods: [GET]}}, {{methods: [PUT]}}]}}
"""


def test_finds_a_wildcard_secret_of_a_service_once_where_the_service_is_named(find: Find) -> None:
    found = find(wide_secret, "services: [t, s]", services={"t": "domains: [e.test]", "s": SERVICE})
    assert found == [(1, "secret key in x-key would be sent to every host of `*.d.test`")]


def test_ignores_secrets_that_another_layer_injects(find: Find) -> None:
    assert find(wide_secret, "domains: [a.test]", organisation=f"{TEXT}tighten: false") == []


def test_finds_a_secret_for_a_wildcard(find: Find) -> None:
    assert find(wide_secret, TEXT) == [(4, "secret key in x-key would be sent to every host of `.c.test`")]


def test_finds_a_rule_with_a_secret_that_is_also_allowed_without_the_secret(find: Find) -> None:
    entries = (
        f"{{host: a.test, transform: {KEY}, rules: [{{methods: [GET]}}]}}",
        f"{{host: b.test, transform: {KEY}}}",
    )
    text = "domains:\n" + "".join(f"  - {entry}\n" for entry in entries)
    told = "`GET, HEAD https://a.test with secret key in x-key` is also allowed without the secret, by policy.yaml:4"
    assert find(optional_secret, f"{text}  - a.test\n") == [(2, f"{told} (`any method a.test`)")]
    assert find(optional_secret, text) == []
