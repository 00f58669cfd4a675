from collections.abc import Callable

from agent_sandbox.policytools.lint.checks.half_denied import half_denied

type Find = Callable[..., list[tuple[int, str]]]

TEXT = """
domains:
  - www.example.com
  - host: api.example.com
    rules: [{schemes: [https]}]
  - host: old.example.com
    rules: [{methods: [DELETE], schemes: [http], path: {exact: /x/1}}]
deny:
  - POST https://www.example.com/admin/**
  - POST https://api.example.com/admin/**
  - GET http://www.example.com/a
  - GET https://www.example.com/a
  - host: old.example.com
    rules: [{schemes: [https], path: {prefix: /x}}]
  - host: www.example.com
    ports: [8443]
    rules: [{schemes: [https]}]
"""


def test_finds_denies_whose_requests_are_allowed_over_the_other_scheme(find: Find) -> None:
    what = "`{0} https://{1}` is denied, and `{0} http://{1}` is allowed by policy.yaml:{2}".format
    assert find(half_denied, TEXT) == [
        (9, what("POST", "www.example.com/admin/**", 3)),
        (14, what("any method", "old.example.com/x/...", 7)),
    ]
